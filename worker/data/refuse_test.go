package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/internal/job"
)

// What Preflight can see without loading it must refuse, and with the words of
// Open; what Open accepts it must accept.
func TestPreflightAgreesWithOpen(t *testing.T) {
	ok := tokenBytes(tokenMagic, 1, 100, counting(100))
	good, labels := idxFile([]uint32{2, 1, 2}, make([]byte, 4)), idxFile([]uint32{2}, make([]byte, 2))
	tokens := func(b []byte) *job.Data {
		return &job.Data{Type: "tokens", Path: write(t, "t.bin", b), Block: 8}
	}
	for name, d := range map[string]*job.Data{
		"tokens":                tokens(ok),
		"tokens, one too few":   tokens(ok[:len(ok)-2]),
		"tokens, odd":           tokens(ok[:len(ok)-1]),
		"tokens, header cut":    tokens(ok[:500]),
		"tokens, magic":         tokens(tokenBytes(7, 1, 100, counting(100))),
		"tokens, empty":         tokens(nil),
		"tokens, gzip":          tokens(zipped(t, bytes.Repeat(ok, 50))),
		"tokens, too few":       tokens(tokenBytes(tokenMagic, 1, 8, counting(8))),
		"tokens, no match":      {Type: "tokens", Path: filepath.Join(t.TempDir(), "*.bin"), Block: 8},
		"idx":                   idxJob(t, good, labels),
		"idx, gzip":             idxJob(t, zipped(t, good), zipped(t, labels)),
		"idx, cut":              idxJob(t, good[:len(good)-1], labels),
		"idx, labels cut":       idxJob(t, good, labels[:len(labels)-1]),
		"idx, counts":           idxJob(t, good, idxFile([]uint32{3}, make([]byte, 3))),
		"idx, swapped":          idxJob(t, labels, good),
		"idx, no pixels":        idxJob(t, idxFile([]uint32{2, 0, 2}, nil), labels),
		"idx, header and no gz": idxJob(t, append([]byte{0x1f, 0x8b}, good...), labels),
		"csv, empty":            csvJob(write(t, "t.csv", nil), 2, 2),
		"csv, not gzip":         csvJob(write(t, "t.csv", []byte("\x1f\x8b12345678901234567890")), 2, 2),
		"bytes":                 {Type: "bytes", Path: write(t, "t", []byte("abcdefgh")), Block: 3},
		"synthetic":             {Type: "synthetic", Synthetic: &job.Synth{Samples: 3, Shape: []int{2}, Classes: 2}},
		"eval file missing":     {Type: "bytes", Path: write(t, "t", []byte("abcdefgh")), Block: 3, EvalPath: filepath.Join(t.TempDir(), "missing")},
	} {
		t.Run(name, func(t *testing.T) {
			pre := Preflight(d)
			s, err := Open(d, 0)
			if err == nil {
				s.Close()
			}
			if fmt.Sprint(pre) != fmt.Sprint(err) || exitcode.Of(pre) != exitcode.Of(err) {
				t.Errorf("Preflight: %v\nOpen:      %v", pre, err)
			}
		})
	}
}

// The files of an IDX set are absolute after a job is loaded, and data.path may
// be missing.
func TestPreflightOfIDXWithoutAFolder(t *testing.T) {
	d := idxJob(t, idxFile([]uint32{1, 2}, []byte{1, 2}), idxFile([]uint32{1}, []byte{0}))
	d.IDX.Images, d.IDX.Labels, d.Path = filepath.Join(d.Path, "img"), filepath.Join(d.Path, "missing"), ""
	refused(t, Preflight(d), d.IDX.Labels, "no such file")
}

func TestPreflightLeavesPathsOfRanksAlone(t *testing.T) {
	if err := Preflight(csvJob("/missing/part-%RANK%.csv", 2, 2)); err != nil {
		t.Error(err)
	}
}

func TestRankInThePathsOfIDX(t *testing.T) {
	d := idxJob(t, idxFile([]uint32{1, 2}, []byte{1, 2}), idxFile([]uint32{1}, []byte{5}))
	if err := os.Rename(filepath.Join(d.Path, "lab"), filepath.Join(d.Path, "lab3")); err != nil {
		t.Fatal(err)
	}
	d.IDX.Labels = "lab%RANK%"
	s, err := Open(d, 3)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if d.IDX.Labels != "lab%RANK%" {
		t.Error("the job was changed")
	}
	_, err = Open(d, 2)
	refused(t, err, "lab2", "no such file")
}

func TestBadTokenNamesItsOwnFile(t *testing.T) {
	dir := t.TempDir()
	for i, part := range [][]uint16{{1, 2, 3}, {4, 999, 5}, {6, 7, 8}} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.bin", i)), tokenBytes(tokenMagic, 1, 3, part), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, &job.Data{Type: "tokens", Path: filepath.Join(dir, "?.bin"), Block: 2})
	want := "token 1 has the value 999, the model knows tokens 0 to 49"
	refused(t, s.CheckClasses(50), "1.bin", want)
	// Behind what is checked at the start the same is said while reading.
	in, out := make([]int32, 2), make([]int32, 2)
	for i := range s.Train.Len() {
		err := s.Train.Read(i, nil, in, out)
		switch i {
		case 0, 3:
			if err != nil {
				t.Errorf("sample %d: %v", i, err)
			}
		default: // its last target, or its first input
			refused(t, err, "1.bin", want)
		}
	}
}

func TestTokenBeyondInt32(t *testing.T) {
	raw := make([]byte, 40)
	binary.LittleEndian.PutUint32(raw[12:], 0xffffffff)
	s := mustOpen(t, &job.Data{Type: "tokens", Path: write(t, "t.bin", raw), Block: 4, DType: "uint32"})
	in, out := make([]int32, 4), make([]int32, 4)
	refused(t, s.Train.Read(0, nil, in, out), "t.bin", "token 3 has the value 4294967295")
}

// Headers written without regard for the limit of int32.
func TestCountBeyondInt32(t *testing.T) {
	const count = 3_000_000_000
	var head [12]byte
	for i, v := range []uint32{tokenMagic, tokenVersion, count} {
		binary.LittleEndian.PutUint32(head[4*i:], v)
	}
	if n, err := tokenCount(head, tokenHeader+2*count); n != count || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := tokenCount(head, tokenHeader+2*(count-1)); err == nil {
		t.Errorf("%d tokens accepted", n)
	}
}

// A file that is cut while training: an error at the turn of the batch, which
// names file and place, through every worker count.
func TestFileThatShrinksWhileTraining(t *testing.T) {
	for _, workers := range []int{0, 2} {
		path := write(t, "live.bin", tokenBytes(tokenMagic, 1, 1000, counting(1000)))
		s := mustOpen(t, &job.Data{Type: "tokens", Path: path, Block: 9})
		if err := s.CheckClasses(50); err != nil {
			t.Fatal(err)
		}
		l := NewLoader(s.Train, LoaderConfig{BatchSize: 10, Workers: workers, PrefetchFactor: 1})
		defer l.Close()
		ids := make([]int, s.Train.Len())
		for i := range ids {
			ids[i] = i
		}
		if err := l.Start(ids); err != nil {
			t.Fatal(err)
		}
		b, err := l.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
		if err := os.Truncate(path, 1100); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			b, err = l.Next(context.Background())
			if err == nil {
				b.Release()
			}
		}
		refused(t, err, path, "has shrunk")
	}
}

// A header of a gzip file that promises more than its bytes can hold is refused
// before there is memory for it.
func TestIDXThatPromisesTooMuch(t *testing.T) {
	d := idxJob(t, zipped(t, idxFile([]uint32{1 << 20, 1 << 10, 1 << 6}, []byte{1, 2, 3})), idxFile([]uint32{1}, []byte{0}))
	_, err := Open(d, 0)
	refused(t, err, "img", "more than", "bytes of gzip can hold")
}

func TestIDXPackedAndDamaged(t *testing.T) {
	pixels := make([]byte, 4000)
	for i := range pixels {
		pixels[i] = byte(i * i)
	}
	good, labels := zipped(t, idxFile([]uint32{4, 1000}, pixels)), idxFile([]uint32{4}, make([]byte, 4))
	damaged := bytes.Clone(good)
	damaged[len(damaged)-5] ^= 1 // of the checksum
	for name, img := range map[string][]byte{"cut": good[:len(good)-20], "checksum": damaged} {
		_, err := Open(idxJob(t, img, labels), 0)
		refused(t, err, "img", "cut off or damaged")
		t.Log(name, err)
	}
}

// The end of a gzip file says how long its contents are; that it lies must not
// matter.
func TestGzipThatLiesAboutItsLength(t *testing.T) {
	content := []byte(strings.Repeat("abcdefgh", 100))
	z := append(zipped(t, content), zipped(t, []byte("xyz"))...) // two members: the end speaks of the last
	got, err := readAll(write(t, "t.gz", z))
	if err != nil || string(got) != string(content)+"xyz" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestFIFOThatTakesThePlaceOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	// As openRegular does after its look at the path: it must not block.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || regular(path, info) == nil {
		t.Errorf("%v, %v", info, err)
	}
}

func TestErrorsOfASubsetNameThePlaceInTheFile(t *testing.T) {
	d := csvJob(write(t, "t.csv", []byte("a,b,c\n1,2,0\n3,4,1\n5,6,1\n")), 2, 2)
	d.CSV.Header, d.TrainRows = true, job.RowRange{From: 1, To: 3, Set: true}
	s := mustOpen(t, d)
	if got, want := place(s.Train, 1), d.Path+":4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSyntheticThatCannotBeMade(t *testing.T) {
	for _, c := range []job.Synth{
		{Samples: 0, Shape: []int{2}, Classes: 2},
		{Samples: 2, Shape: []int{1 << 40, 1 << 40}, Classes: 2},
		{Samples: 2, Shape: []int{2}},
		{Samples: 2, Shape: []int{2, 2}, Classes: 2, Tokens: true},
	} {
		_, err := Open(&job.Data{Type: "synthetic", Synthetic: &c}, 0)
		refused(t, err, "data.synthetic")
	}
}
