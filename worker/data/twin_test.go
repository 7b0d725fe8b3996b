package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ddprun/ddprun/internal/job"
)

// The standard library's reader, and a number at a time: slow and plain.
func twinCSV(t *testing.T, r io.Reader, c *job.CSV) (features []float32, labels []int32) {
	t.Helper()
	all, err := csv.NewReader(r).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if c.Header {
		all = all[1:]
	}
	for _, row := range all {
		for _, field := range row[c.Features.From:c.Features.To] {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			features = append(features, float32(v*c.Scale))
		}
		v, err := strconv.Atoi(row[c.Label])
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, int32(v))
	}
	return features, labels
}

func sameTable(t *testing.T, got *table, features []float32, labels []int32) {
	t.Helper()
	if fmt.Sprint(got.labels) != fmt.Sprint(labels) {
		t.Errorf("labels %v, want %v", got.labels, labels)
	}
	if len(got.features) != len(features) {
		t.Fatalf("%d features, want %d", len(got.features), len(features))
	}
	for i := range features {
		if got.features[i] != features[i] {
			t.Fatalf("feature %d is %v, want %v", i, got.features[i], features[i])
		}
	}
}

func TestDigitsAreWhatTheFileSays(t *testing.T) {
	f, err := os.Open("testdata/digits.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	c := &job.CSV{Features: job.RowRange{To: 64, Set: true}, Label: 64, Scale: 0.0625}
	features, labels := twinCSV(t, z, c)
	got, err := readCSV("testdata/digits.csv.gz", c)
	if err != nil {
		t.Fatal(err)
	}
	if got.Len() != 1797 {
		t.Errorf("%d rows", got.Len())
	}
	sameTable(t, got, features, labels)
	if cap(got.features) > len(got.features)+64 {
		t.Errorf("room for %d features, %d are used", cap(got.features), len(got.features))
	}
}

// Tables with columns of text between the numbers, as the standard library
// writes them: quotes and commas in quotes included.
func TestCSVReadsWhatOthersWrite(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	words := []string{"", "a", `say "so"`, "1,2,3", `,"`, " x ", `""`, "ü"}
	for range 200 {
		var text bytes.Buffer
		w := csv.NewWriter(&text)
		c := &job.CSV{Features: job.RowRange{From: 2, To: 5, Set: true}, Label: 0, Scale: 0.5, Header: rng.IntN(2) == 0}
		if c.Header {
			_ = w.Write([]string{"label", "name", "x,1", `"y"`, "z", "note"})
		}
		for range 1 + rng.IntN(5) {
			number := func() string { return strconv.FormatFloat(rng.NormFloat64()*1e3, 'g', -1, 64) }
			word := func() string { return words[rng.IntN(len(words))] }
			_ = w.Write([]string{strconv.Itoa(rng.IntN(10)), word(), number(), number(), number(), word()})
		}
		w.Flush()
		features, labels := twinCSV(t, bytes.NewReader(text.Bytes()), c)
		got, err := readCSV(write(t, "t.csv", text.Bytes()), c)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text.String())
		}
		sameTable(t, got, features, labels)
	}
}

// A file of nothing but line ends must not be given memory for rows.
func TestLineEndsAreNoMemory(t *testing.T) {
	path := write(t, "t.csv", append([]byte("1,2,0\n"), bytes.Repeat([]byte("\n"), 1<<20)...))
	c := csvJob(path, 2, 2).CSV
	got, err := readCSV(path, c)
	if err != nil || got.Len() != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if cap(got.features) > 1<<20 {
		t.Errorf("room for %d features", cap(got.features))
	}
}

// The sample rule of bytes and tokens: sample i is all[i*block : i*block+block+1].
func checkBlocks(t *testing.T, s Set, all []int32, block int) {
	t.Helper()
	if want := (len(all) - 1) / block; s.Len() != want {
		t.Fatalf("%d samples of %d tokens in blocks of %d, want %d", s.Len(), len(all), block, want)
	}
	in, out := make([]int32, block), make([]int32, block)
	for i := range s.Len() {
		if err := s.Read(i, nil, in, out); err != nil {
			t.Fatal(err)
		}
		want := all[i*block : i*block+block+1]
		if fmt.Sprint(in) != fmt.Sprint(want[:block]) || fmt.Sprint(out) != fmt.Sprint(want[1:]) {
			t.Fatalf("sample %d of blocks of %d: %v %v, want %v", i, block, in, out, want)
		}
	}
}

func TestBytesFollowTheSampleRule(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		b := make([]byte, 2+rng.IntN(200))
		all := make([]int32, len(b))
		for i := range b {
			b[i] = byte(rng.Uint32())
			all[i] = int32(b[i])
		}
		block := 1 + rng.IntN(len(b)-1)
		content := b
		if rng.IntN(2) == 0 {
			content = zipped(t, b)
		}
		if isGzip(b) {
			continue
		}
		s := mustOpen(t, &job.Data{Type: "bytes", Path: write(t, "t", content), Block: block})
		checkBlocks(t, s.Train, all, block)
	}
}

func TestTokensFollowTheSampleRule(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 50 {
		dir := t.TempDir()
		all := make([]int32, 2+rng.IntN(200))
		for i := range all {
			all[i] = int32(rng.IntN(1 << 16))
		}
		block := 1 + rng.IntN(len(all)-1)
		for i, rest := 0, all; i == 0 || len(rest) > 0; i++ {
			n := rng.IntN(len(rest) + 1) // files may be empty
			part := make([]uint16, n)
			for k, v := range rest[:n] {
				part[k] = uint16(v)
			}
			rest = rest[n:]
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.bin", i)), tokenBytes(tokenMagic, 1, int32(n), part), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s := mustOpen(t, &job.Data{Type: "tokens", Path: filepath.Join(dir, "*.bin"), Block: block})
		checkBlocks(t, s.Train, all, block)
		if err := s.CheckClasses(1 << 16); err != nil {
			t.Error(err)
		}
	}
}

// Workers read one file at the same time.
func TestTokensThroughTheLoader(t *testing.T) {
	const block = 7
	all := counting(701)
	s := mustOpen(t, &job.Data{Type: "tokens", Path: write(t, "t.bin", tokenBytes(tokenMagic, 1, int32(len(all)), all)), Block: block})
	l := NewLoader(s.Train, LoaderConfig{BatchSize: 3, Workers: 4, PrefetchFactor: 2})
	defer l.Close()
	if err := l.Start(order(s.Train.Len())); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for {
		b, err := l.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for k, i := range b.Indices {
			for p := range block {
				if at := k*block + p; b.Tokens[at] != int32(all[i*block+p]) || b.Y[at] != int32(all[i*block+p+1]) {
					t.Fatalf("sample %d differs at %d", i, p)
				}
			}
			seen++
		}
		b.Release()
	}
	if seen != s.Train.Len() {
		t.Errorf("%d samples, want %d", seen, s.Train.Len())
	}
}
