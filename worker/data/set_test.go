package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/job"
)

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func csvJob(path string, features, label int) *job.Data {
	return &job.Data{Type: "csv", Path: path, CSV: &job.CSV{Features: job.RowRange{To: features, Set: true}, Label: label, Scale: 1}}
}

func mustOpen(t *testing.T, d *job.Data) *Sets {
	t.Helper()
	s, err := Open(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// refused wants an error of the data class, on one line, that names the file
// and says what.
func refused(t *testing.T, err error, path string, what ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want an error with %q", what)
	}
	if code := exitcode.Of(err); code != exitcode.Data {
		t.Errorf("exit code %d: %v", code, err)
	}
	text := err.Error()
	for _, w := range append(what, path) {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in: %s", w, text)
		}
	}
	if strings.Contains(text, "\n") {
		t.Errorf("more than one line: %s", text)
	}
}

func TestDigits(t *testing.T) {
	d := csvJob("testdata/digits.csv.gz", 64, 64)
	d.CSV.Scale = 0.0625
	d.TrainRows, d.EvalRows = job.RowRange{To: 1437, Set: true}, job.RowRange{From: 1437, To: 1797, Set: true}
	s := mustOpen(t, d)
	if s.Train.Len() != 1437 || s.Eval.Len() != 360 || s.Train.Spec().Features[0] != 64 {
		t.Fatalf("%d and %d samples of %v", s.Train.Len(), s.Eval.Len(), s.Train.Spec())
	}
	all := mustOpen(t, csvJob("testdata/digits.csv.gz", 64, 64))
	x, raw, y, label := make([]float32, 64), make([]float32, 64), make([]int32, 1), make([]int32, 1)
	for i := range s.Eval.Len() {
		if err := s.Eval.Read(i, x, nil, y); err != nil {
			t.Fatal(err)
		}
		if err := all.Train.Read(1437+i, raw, nil, label); err != nil {
			t.Fatal(err)
		}
		for k := range x {
			if x[k] != raw[k]/16 || y[0] != label[0] {
				t.Fatalf("sample %d differs from row %d", i, 1437+i)
			}
		}
	}
	if err := s.CheckClasses(10); err != nil {
		t.Error(err)
	}
	refused(t, s.CheckClasses(9), "digits.csv.gz:", "label 9 is out of range", "9 classes")
}

func TestCSVRefuses(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          []string
	}{
		{"empty", "", []string{"empty"}},
		{"not a number", "1,2,0\n1,x,0\n", []string{":2: column 1", `"x" is not a number`}},
		{"header", "a,b,c\n1,2,0\n", []string{":1: column 0", "data.csv.header: true"}},
		{"NaN", "1,2,0\n1,2,1\nnan,2,0\n", []string{":3: column 0", "not a finite number"}},
		{"infinity", "1,+Inf,0\n", []string{":1: column 1", "not a finite number"}},
		{"beyond float32", "1,1e39,0\n", []string{":1: column 1", "too large for a float32"}},
		{"beyond float64", "1,1e400,0\n", []string{":1: column 1", "not a finite number"}},
		{"label NaN", "1,2,nan\n", []string{":1: column 2", "not a finite number"}},
		{"label beyond int32", "1,2,2147483648\n", []string{":1: column 2", "whole number"}},
		{"quote that does not end", "1,2,0\n\"1,2,0\n", []string{":2: column 0", "quoted field does not end"}},
		{"behind the quote", "1,\"2\"3,0\n", []string{":1: column 1", "behind its end"}},
		{"short row", "1,2,0\n1,2\n", []string{":2:", "2 columns", "have 3"}},
		{"long row", "1,2,0\n1,2,0,4\n", []string{":2:", "4 columns"}},
		{"too few columns", "1,2\n", []string{":1:", "2 columns", "up to 2"}},
		{"label not whole", "1,2,0.5\n", []string{":1: column 2", "whole number"}},
		{"label negative", "1,2,-1\n", []string{":1: column 2", "whole number"}},
		{"gap", "1,2,0\n\n1,2,0\n", []string{":2:", "empty line"}},
		{"only newlines", "\n\n", []string{"no sample"}},
		{"binary", "\x00\x01\x02,2,3\n", []string{":1: column 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, "t.csv", []byte(c.content))
			_, err := Open(csvJob(path, 2, 2), 0)
			refused(t, err, path, c.want...)
		})
	}
	t.Run("gzip cut off", func(t *testing.T) {
		z := zipped(t, bytes.Repeat([]byte("1,2,0\n"), 1000))
		path := write(t, "t.csv.gz", z[:len(z)-9])
		_, err := Open(csvJob(path, 2, 2), 0)
		refused(t, err, path, "cut off")
	})
	t.Run("gzip cut off in a line", func(t *testing.T) {
		var rows bytes.Buffer
		for i := range 2000 {
			fmt.Fprintf(&rows, "%d,%d,%d\n", i*7919, i*104729, i%10)
		}
		z := zipped(t, rows.Bytes())
		// Some of these leave a row whose last field is missing.
		for cut := 1000; cut < 1040; cut++ {
			path := write(t, "t.csv.gz", z[:cut])
			_, err := Open(csvJob(path, 2, 2), 0)
			refused(t, err, path, "cut off")
		}
	})
	t.Run("rows beyond the end", func(t *testing.T) {
		path := write(t, "t.csv", []byte("1,2,0\n1,2,0\n"))
		d := csvJob(path, 2, 2)
		d.TrainRows = job.RowRange{From: 0, To: 3, Set: true}
		_, err := Open(d, 0)
		refused(t, err, path, "data.train_rows is 0:3", "0:2")
	})
}

func TestCSVAccepts(t *testing.T) {
	for name, content := range map[string][]byte{
		"CRLF and BOM":   []byte("\xef\xbb\xbf1,2,0\r\n3,4,1\r\n"),
		"no newline":     []byte("1,2,0\n3,4,1"),
		"quotes, spaces": []byte("\"1\", 2 ,0\n3,4,\"1\"\n"),
		"gzip":           zipped(t, []byte("1,2,0\n3,4,1\n")),
		"empty end":      []byte("1,2,0\n3,4,1\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, csvJob(write(t, "t", content), 2, 2))
			x, y := make([]float32, 2), make([]int32, 1)
			if err := s.Train.Read(1, x, nil, y); err != nil || s.Train.Len() != 2 {
				t.Fatalf("%d samples, %v", s.Train.Len(), err)
			}
			if x[0] != 3 || x[1] != 4 || y[0] != 1 {
				t.Errorf("sample 1 is %v %v", x, y)
			}
		})
	}
}

func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"csv", "bytes", "tokens"} {
		for path, want := range map[string]string{
			filepath.Join(dir, "missing"): "no such file",
			dir:                           "a folder",
			fifo:                          "not a regular file",
			link:                          "link to a file that does not exist",
		} {
			d := csvJob(path, 2, 2)
			d.Type, d.Block = kind, 4
			_, err := Open(d, 0)
			refused(t, err, path, want)
			refused(t, Preflight(d), path, want)
		}
	}
}

func idxFile(dims []uint32, data []byte) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, data...)
}

func idxJob(t *testing.T, img, lab []byte) *job.Data {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{"img": img, "lab": lab} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &job.Data{Type: "idx", Path: dir, IDX: &job.IDX{Images: "img", Labels: "lab", Scale: 1.0 / 255, Mean: 0.5, Std: 0.25}}
}

func TestIDX(t *testing.T) {
	for _, pack := range []func([]byte) []byte{func(b []byte) []byte { return b }, func(b []byte) []byte { return zipped(t, b) }} {
		s := mustOpen(t, idxJob(t, pack(idxFile([]uint32{2, 1, 2}, []byte{0, 255, 51, 102})), pack(idxFile([]uint32{2}, []byte{3, 7}))))
		x, y := make([]float32, 2), make([]int32, 1)
		if err := s.Train.Read(1, x, nil, y); err != nil {
			t.Fatal(err)
		}
		if x[0] != float32((0.2-0.5)/0.25) || y[0] != 7 || fmt.Sprint(s.Train.Spec().Features) != "[1 2]" {
			t.Errorf("sample 1 is %v %v of %v", x, y, s.Train.Spec())
		}
		refused(t, s.CheckClasses(7), "lab", "label 7 of sample 1")
	}
	good, labels := idxFile([]uint32{2, 1, 2}, make([]byte, 4)), idxFile([]uint32{2}, make([]byte, 2))
	for _, c := range []struct {
		name     string
		img, lab []byte
		want     string
	}{
		{"empty", nil, labels, "empty"},
		{"magic", []byte("PNG........"), labels, "not an IDX file"},
		{"type", append([]byte{0, 0, 13, 1}, make([]byte, 8)...), labels, "element type is 0x0d"},
		{"header cut", good[:9], labels, "cut off in its header"},
		{"data cut", good[:len(good)-1], labels, "but 3 bytes follow"},
		{"data left over", append(bytes.Clone(good), 0), labels, "but more follow"},
		{"counts", good, idxFile([]uint32{3}, make([]byte, 3)), "has 3 labels"},
		{"swapped", labels, good, "1 dimension"},
		{"huge", idxFile([]uint32{0xffffffff, 0xffffffff, 0xffffffff}, nil), labels, "too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := idxJob(t, c.img, c.lab)
			_, err := Open(d, 0)
			refused(t, err, d.Path, c.want)
		})
	}
}

func TestBytes(t *testing.T) {
	path := write(t, "text", []byte("abcdefghijk"))
	s := mustOpen(t, &job.Data{Type: "bytes", Path: path, Block: 4})
	if s.Train.Len() != 2 {
		t.Fatalf("%d samples of 11 bytes in blocks of 4, want 2", s.Train.Len())
	}
	tok, y := make([]int32, 4), make([]int32, 4)
	if err := s.Train.Read(1, nil, tok, y); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(tok, y) != "[101 102 103 104] [102 103 104 105]" {
		t.Errorf("sample 1 is %v %v", tok, y)
	}
	refused(t, s.CheckClasses(100), path, "byte 3 has the value 100")
	_, err := Open(&job.Data{Type: "bytes", Path: path, Block: 11}, 0)
	refused(t, err, path, "11 bytes", "takes 12")
}

// tokenBytes is a token file with the header's fields as given.
func tokenBytes(magic, version, count int32, tokens []uint16) []byte {
	b := make([]byte, tokenHeader)
	for i, v := range []int32{magic, version, count} {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	}
	for _, v := range tokens {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return b
}

func counting(n int) []uint16 {
	ts := make([]uint16, n)
	for i := range ts {
		ts[i] = uint16(i % 50)
	}
	return ts
}

func TestTokensRefuse(t *testing.T) {
	ok := tokenBytes(tokenMagic, 1, 100, counting(100))
	for _, c := range []struct {
		name    string
		content []byte
		want    []string
	}{
		{"short", tokenBytes(tokenMagic, 1, 100, counting(99)), []string{"100 tokens", "1224 bytes", "has 1222"}},
		{"magic", tokenBytes(7, 1, 100, counting(100)), []string{"begins with 7", "20240520"}},
		{"version", tokenBytes(tokenMagic, 9, 100, counting(100)), []string{"version 9"}},
		{"negative", tokenBytes(tokenMagic, 1, -5, counting(100)), []string{"-5 tokens"}},
		{"odd", ok[:len(ok)-1], []string{"has 1223"}},
		{"header", ok[:500], []string{"500 bytes", "1024"}},
		{"zero", nil, []string{"empty"}},
		{"too few", tokenBytes(tokenMagic, 1, 8, counting(8)), []string{"has 8 tokens", "takes 9"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, "t.bin", c.content)
			_, err := Open(&job.Data{Type: "tokens", Path: path, Block: 8}, 0)
			refused(t, err, path, c.want...)
		})
	}
	t.Run("large and wrong", func(t *testing.T) {
		path := write(t, "big.bin", nil)
		if err := os.Truncate(path, 5<<30); err != nil {
			t.Skip(err)
		}
		_, err := Open(&job.Data{Type: "tokens", Path: path, Block: 8}, 0)
		refused(t, err, path, "begins with 0")
	})
	t.Run("vocabulary", func(t *testing.T) {
		path := write(t, "t.bin", tokenBytes(tokenMagic, 1, 100, append(counting(99), 65535)))
		s := mustOpen(t, &job.Data{Type: "tokens", Path: path, Block: 8})
		refused(t, s.CheckClasses(50), path, "token 99 has the value 65535")
	})
	t.Run("shrinks", func(t *testing.T) {
		path := write(t, "t.bin", ok)
		s := mustOpen(t, &job.Data{Type: "tokens", Path: path, Block: 8})
		if err := os.Truncate(path, 1100); err != nil {
			t.Fatal(err)
		}
		tok, y := make([]int32, 8), make([]int32, 8)
		refused(t, s.Train.Read(10, nil, tok, y), path, "has shrunk")
	})
}

func TestTokensOverSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	all := counting(70)
	for i, part := range [][]uint16{all[:20], all[20:21], all[21:70]} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("t%d.bin", i)), tokenBytes(tokenMagic, 1, int32(len(part)), part), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, &job.Data{Type: "tokens", Path: filepath.Join(dir, "*.bin"), Block: 6})
	if s.Train.Len() != 11 {
		t.Fatalf("%d samples, want 11", s.Train.Len())
	}
	tok, y := make([]int32, 6), make([]int32, 6)
	for i := range s.Train.Len() {
		if err := s.Train.Read(i, nil, tok, y); err != nil {
			t.Fatal(err)
		}
		for k := range tok {
			if tok[k] != int32(all[i*6+k]) || y[k] != int32(all[i*6+k+1]) {
				t.Fatalf("sample %d is %v %v", i, tok, y)
			}
		}
	}
}

func TestHeaderlessTokens(t *testing.T) {
	var raw []byte
	for i := range 20 {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(i*70000))
	}
	path := write(t, "t.bin", raw)
	s := mustOpen(t, &job.Data{Type: "tokens", Path: path, Block: 4, DType: "uint32"})
	tok, y := make([]int32, 4), make([]int32, 4)
	if err := s.Train.Read(1, nil, tok, y); err != nil || tok[0] != 4*70000 || y[3] != 8*70000 {
		t.Errorf("%v %v %v", tok, y, err)
	}
	_, err := Open(&job.Data{Type: "tokens", Path: write(t, "t.bin", raw[:41]), Block: 4, DType: "uint16"}, 0)
	refused(t, err, "t.bin", "41 bytes are no whole number")
}

func TestRankInPath(t *testing.T) {
	dir := t.TempDir()
	for r := range 2 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("s%d.csv", r)), []byte(fmt.Sprintf("%d,2,0\n", r)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := csvJob(filepath.Join(dir, "s%RANK%.csv"), 2, 2)
	s, err := Open(d, 1)
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, 2), make([]int32, 1)
	if err := s.Train.Read(0, x, nil, y); err != nil || x[0] != 1 {
		t.Errorf("rank 1 reads %v %v", x, err)
	}
}

func TestSyntheticIsAFunctionOfTheNumber(t *testing.T) {
	d := &job.Data{Type: "synthetic", Synthetic: &job.Synth{Samples: 50, EvalSamples: 7, Shape: []int{3, 2}, Classes: 4, Seed: 9}}
	a, b := mustOpen(t, d), mustOpen(t, d)
	if a.Train.Len() != 50 || a.Eval.Len() != 7 {
		t.Fatalf("%d and %d samples", a.Train.Len(), a.Eval.Len())
	}
	read := func(s Set, i int) string {
		x, y := make([]float32, 6), make([]int32, 1)
		if err := s.Read(i, x, nil, y); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(x, y)
	}
	seen := map[string]bool{}
	for i := range 50 {
		if read(a.Train, i) != read(b.Train, i) {
			t.Errorf("sample %d differs", i)
		}
		seen[read(a.Train, i)] = true
	}
	for i := range 7 {
		seen[read(a.Eval, i)] = true
	}
	if len(seen) != 57 {
		t.Errorf("%d different samples, want 57", len(seen))
	}
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("1,2,0\n3,4,1\n"), true)
	f.Add([]byte("\xef\xbb\xbf\"1\",2,0\r\n"), false)
	f.Fuzz(func(t *testing.T, content []byte, header bool) {
		path := filepath.Join(t.TempDir(), "t")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		c := csvJob(path, 2, 2).CSV
		c.Header = header
		tab, err := readCSV(path, c)
		if err == nil && (tab.Len() == 0 || len(tab.features) != 2*tab.Len()) {
			t.Errorf("%d labels, %d features", tab.Len(), len(tab.features))
		}
	})
}

func FuzzIDX(f *testing.F) {
	f.Add(idxFile([]uint32{2, 1, 2}, make([]byte, 4)))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "t")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		dims, data, err := readIDX(path)
		n := 1
		for _, d := range dims {
			n *= d
		}
		if err == nil && n != len(data) {
			t.Errorf("%v with %d bytes", dims, len(data))
		}
	})
}

func FuzzTokenHeader(f *testing.F) {
	f.Add([]byte("\x58\xd6\x34\x01\x01\x00\x00\x00\x05\x00\x00\x00"), int64(1034))
	f.Fuzz(func(t *testing.T, content []byte, size int64) {
		var head [12]byte
		copy(head[:], content)
		if n, err := tokenCount(head, size); err == nil && (n < 0 || n > math.MaxUint32 || tokenHeader+2*n != size) {
			t.Errorf("%d tokens in %d bytes", n, size)
		}
	})
}
