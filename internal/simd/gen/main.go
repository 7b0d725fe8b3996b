// Command gen writes the AVX2 kernels of two packages: the vector loops of
// internal/simd and the matrix kernel of worker/device/cpu/blas.
//
// It is a module of its own so that the assembler, avo, is no dependency of
// the project. Run it with go generate in internal/simd.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

func main() {
	simd := flag.String("simd", "..", "folder of package simd")
	blas := flag.String("blas", "../../../worker/device/cpu/blas", "folder of package blas")
	flag.Parse()
	err := run(*simd, *blas)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(simd, blas string) error {
	sum, err := sourceHash(".")
	if err != nil {
		return err
	}
	var ks []kernel
	ks = append(ks, elementwise()...)
	ks = append(ks, reductions()...)
	ks = append(ks, activations()...)
	ks = append(ks, layernorm()...)
	ks = append(ks, optimizers()...)
	if err := write(simd, "simd", ks); err != nil {
		return err
	}
	if err := dispatch(simd, ks); err != nil {
		return err
	}
	if err := write(blas, "blas", matrix()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(simd, "gen.sum"), []byte(sum+"\n"), 0o644)
}

// sourceHash is what the tests of package simd compare with gen.sum, so that
// a changed generator with stale output does not pass. TestGeneratedIsFresh
// computes the same.
func sourceHash(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(f), len(b))
		h.Write(b)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// write assembles ks into kernels_amd64.s and its Go declarations.
func write(dir, pkg string, ks []kernel) error {
	a := newAsm()
	for _, k := range ks {
		a.function(k)
	}
	f, err := a.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(f); err != nil {
		return err
	}
	cfg := printer.Config{Name: "internal/simd/gen", Pkg: pkg}
	text, err := printer.NewGoAsm(cfg).Print(f)
	if err != nil {
		return err
	}
	stubs, err := printer.NewStubs(cfg).Print(f)
	if err != nil {
		return err
	}
	if stubs, err = format.Source(stubs); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "kernels_amd64.s"), tidy(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "kernels_amd64.go"), tidy(stubs), 0o644)
}

// tidy drops the build lines of before Go 1.17, which gofmt would move.
func tidy(b []byte) []byte {
	var out [][]byte
	for _, l := range bytes.Split(b, []byte("\n")) {
		if !bytes.HasPrefix(l, []byte("// +build")) {
			out = append(out, l)
		}
	}
	return bytes.Join(out, []byte("\n"))
}
