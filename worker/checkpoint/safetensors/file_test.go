package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ddprun/ddprun/internal/exitcode"
)

func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustOpen(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// raw is a file with this header and data.
func raw(header, data string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+data...)
}

func TestRoundTrip(t *testing.T) {
	tensors := []Tensor{
		{"w", "F32", []int{2, 2}, floats(1, -2, 3.5, float32(math.Inf(1)))},
		{"scalar", "I64", []int{}, []byte{9, 0, 0, 0, 0, 0, 0, 0}},
		{"empty", "F16", []int{3, 0}, []byte{}},
		{"name with \" and \n and é", "U8", []int{1}, []byte{5}},
	}
	metadata := map[string]string{"step": "7", "q\"": "\u2028"}
	f := mustOpen(t, writeFile(t, mustWrite(t, tensors, metadata)))
	if got := f.Metadata(); len(got) != 2 || got["step"] != "7" || got["q\""] != "\u2028" {
		t.Errorf("metadata %v", got)
	}
	if want := []string{"scalar", "w", "empty", "name with \" and \n and é"}; !slices.Equal(f.Names(), want) {
		t.Errorf("names %q, want %q", f.Names(), want)
	}
	for _, want := range tensors {
		info, ok := f.Info(want.Name)
		if !ok || info.DType != want.DType || !slices.Equal(info.Shape, want.Shape) || info.Bytes != int64(len(want.Data)) {
			t.Errorf("%q: info %+v", want.Name, info)
		}
		if got, err := f.Read(want.Name); err != nil || !bytes.Equal(got, want.Data) {
			t.Errorf("%q: %v, data %v", want.Name, err, got)
		}
	}
	if _, ok := f.Info("w "); ok {
		t.Error("Info of a name that is not there")
	}
	_, err := f.Read("nope")
	if exitcode.Of(err) != exitcode.Checkpoint || !strings.Contains(err.Error(), f.Path()+`: there is no tensor "nope"`) {
		t.Errorf("Read of a name that is not there: %v", err)
	}
}

// The file was written by another implementation (the golden run's script).
func TestReadsForeignFile(t *testing.T) {
	f := mustOpen(t, "testdata/mlp_digits.init.safetensors")
	want := []Tensor{
		{Name: "fc1.weight", Shape: []int{128, 64}},
		{Name: "fc1.bias", Shape: []int{128}},
		{Name: "fc2.weight", Shape: []int{10, 128}},
		{Name: "fc2.bias", Shape: []int{10}},
	}
	if err := f.Match(want, false); err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		values, err := f.ReadFloat32(w.Name)
		if err != nil {
			t.Fatal(err)
		}
		bound := float32(1 / math.Sqrt(float64(64))) // nn.Linear draws from ±1/sqrt(in)
		if largest := slices.Max(values); largest <= 0 || largest > bound {
			t.Errorf("%s: largest value %v", w.Name, largest)
		}
	}
}

func TestReadersShareAFile(t *testing.T) {
	var tensors []Tensor
	for i := range 50 {
		tensors = append(tensors, Tensor{fmt.Sprintf("t%d", i), "F32", []int{2}, floats(float32(i), 1)})
	}
	f := mustOpen(t, writeFile(t, mustWrite(t, tensors, nil)))
	var wg sync.WaitGroup
	for i := range tensors {
		wg.Go(func() {
			if v, err := f.ReadFloat32(tensors[i].Name); err != nil || v[0] != float32(i) {
				t.Errorf("tensor %d: %v %v", i, v, err)
			}
		})
	}
	wg.Wait()
}

// entryJSON is a header of one F32 tensor of two elements with a change.
func entryJSON(old, replacement string) string {
	return strings.Replace(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, old, replacement, 1)
}

func TestOpenRefuses(t *testing.T) {
	const data = "12345678"
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "the file has 0 bytes"},
		{"seven bytes", []byte("1234567"), "the file has 7 bytes"},
		{"no header", raw("", ""), "claims 0 bytes, too few"},
		{"one byte of header", raw("{", ""), "claims 1 bytes, too few"},
		{"header beyond the file", raw(`{"a"`, "")[:11], "claims 4 bytes, but only 3 follow"},
		{"header too large", append(binary.LittleEndian.AppendUint64(nil, maxHeader+1), '{'), "claims 100000001 bytes, more than"},
		{"header length of 2^64-1", bytes.Repeat([]byte{0xff}, 40), "claims 18446744073709551615 bytes"},
		{"header at the limit in a small file", append(binary.LittleEndian.AppendUint64(nil, maxHeader), '{'), "only 1 follow"},
		{"a zip file", []byte("PK\x03\x04aaaaaaaaaaaaaaaa"), "not a safetensors file?"},
		{"bad start", raw(` {}`, ""), "does not begin with '{'"},
		{"array", raw(`[]`, ""), "does not begin with '{'"},
		{"bad UTF-8", raw("{\"a\xff\":1}", ""), "not UTF-8 (byte 3 of it)"},
		{"bad JSON", raw(`{"a":`, ""), "not JSON"},
		{"bad JSON early", raw(`{a:1}`, ""), "not JSON"},
		{"trailing comma", raw(entryJSON("}}", "},}"), data), "not JSON"},
		{"trailing comma in shape", raw(entryJSON("[2]", "[2,]"), data), "not JSON"},
		{"missing comma", raw(entryJSON(`"F32",`, `"F32"`), data), "not JSON"},
		{"text behind the header", raw(entryJSON("}}", "}}x"), data), "goes on behind its end"},
		{"second header", raw(entryJSON("}}", "}} {}"), data), "goes on behind its end"},
		{"entry is no object", raw(`{"a":3}`, ""), "found 3 where an object is due"},
		{"no dtype", raw(entryJSON(`"dtype":"F32",`, ""), data), `tensor "a": the field "dtype" is missing`},
		{"other spelling", raw(entryJSON(`dtype`, "DType"), data), `the field "dtype" is missing`},
		{"no shape", raw(entryJSON(`"shape":[2],`, ""), data), `the field "shape" is missing`},
		{"no offsets", raw(entryJSON(`,"data_offsets":[0,8]`, ""), data), `the field "data_offsets" is missing`},
		{"field twice", raw(entryJSON(`"shape"`, `"shape":[2],"shape"`), data), `the field "shape" comes twice`},
		{"name twice", raw(entryJSON("}}", `},"a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}`), data), `the name "a" comes twice`},
		{"name twice, escaped", raw(entryJSON("}}", `},"\u0061":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}`), data), `the name "a" comes twice`},
		{"unknown dtype", raw(entryJSON("F32", "F33"), data), `tensor "a": unknown dtype "F33"`},
		{"dtype is a number", raw(entryJSON(`"F32"`, "32"), data), `tensor "a": dtype: found 32 where a string is due`},
		{"shape is a number", raw(entryJSON("[2]", "2"), data), "an array"},
		{"shape of strings", raw(entryJSON("[2]", `["2"]`), data), "found 2 where a number is due"},
		{"negative shape", raw(entryJSON("[2]", "[-2]"), data), "-2 is not a whole number"},
		{"broken shape", raw(entryJSON("[2]", "[2.5]"), data), "2.5 is not a whole number"},
		{"shape beyond 64 bits", raw(entryJSON("[2]", "[9223372036854775808]"), data), "not a whole number from 0 to 2^63-1"},
		{"product overflows", raw(entryJSON("[2]", "[4294967296,4294967296]"), data), "overflows"},
		{"product overflows to the right size", raw(entryJSON("[2]", "[4611686018427387906]"), data), "overflows"},
		{"one offset", raw(entryJSON("[0,8]", "[0]"), data), "1 numbers where two"},
		{"three offsets", raw(entryJSON("[0,8]", "[0,8,8]"), data), "3 numbers where two"},
		{"negative offset", raw(entryJSON("[0,8]", "[-8,0]"), data), "-8 is not a whole number"},
		{"offsets backwards", raw(entryJSON("[0,8]", "[8,0]"), data), "run backwards"},
		{"size mismatch", raw(entryJSON("[0,8]", "[0,4]"), data), "hold 4 bytes, but F32[2] has 8"},
		{"does not start at 0", raw(entryJSON("[0,8]", "[1,9]"), data+"9"), `tensor "a" begins at byte 1 of the data, but the start of the data ends at 0: a hole`},
		{"hole", raw(entryJSON("}}", `},"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}}`), data+"90"), `tensor "b" begins at byte 9 of the data, but "a" ends at 8: a hole`},
		{"overlap", raw(entryJSON("}}", `},"b":{"dtype":"U8","shape":[2],"data_offsets":[7,9]}}`), data+"9"), "an overlap"},
		{"same place twice", raw(entryJSON("}}", `},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`), data), "an overlap"},
		{"cut by a byte", raw(entryJSON("", ""), data[:7]), "ends at byte 8 of the data, which has 7"},
		{"data left over", raw(entryJSON("", ""), data+"9"), "1 bytes are left over"},
		{"huge tensor in a small file", raw(`{"a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]}}`, ""), "which has 0"},
		{"metadata is no object", raw(`{"__metadata__":[]}`, ""), "an object"},
		{"metadata of numbers", raw(`{"__metadata__":{"a":1}}`, ""), `the metadata "a": found 1 where a string is due`},
		{"metadata twice", raw(`{"__metadata__":{"a":"1","a":"2"}}`, ""), `the metadata "a" comes twice`},
		{"deep nesting", raw(`{"a":{"x":`+strings.Repeat("[", 100000)+`}}`, ""), "not JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeFile(t, c.file)
			f, err := Open(path)
			if err == nil {
				_ = f.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path+": ") {
				t.Errorf("got %q, want %q", err, c.want)
			}
			if exitcode.Of(err) != exitcode.Checkpoint {
				t.Errorf("exit code %d", exitcode.Of(err))
			}
		})
	}
}

func TestOpenAccepts(t *testing.T) {
	for name, file := range map[string][]byte{
		"spaces":        raw("{ \n\t}   ", ""),
		"unknown field": raw(entryJSON(`"shape"`, `"later":{"x":[1,{}]},"shape"`), "12345678"),
		"zero first":    raw(`{"a":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}}`, ""),
		"unsorted":      raw(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, "xy"),
		"empty name":    raw(`{"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "x"),
	} {
		f, err := Open(writeFile(t, file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = f.Close()
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, filepath.Join(dir, "nothing")} {
		if _, err := Open(path); exitcode.Of(err) != exitcode.Checkpoint || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestReadOfAFileCutWhileOpen(t *testing.T) {
	path := writeFile(t, mustWrite(t, []Tensor{{"a", "F32", []int{4}, floats(1, 2, 3, 4)}}, nil))
	f := mustOpen(t, path)
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-3); err != nil {
		t.Fatal(err)
	}
	for _, read := range []func() error{
		func() error { _, err := f.Read("a"); return err },
		func() error { _, err := f.ReadFloat32("a"); return err },
	} {
		if err := read(); exitcode.Of(err) != exitcode.Checkpoint || !strings.Contains(err.Error(), `read tensor "a": the file ends at byte`) {
			t.Errorf("got %v", err)
		}
	}
}

func TestMatch(t *testing.T) {
	f := mustOpen(t, writeFile(t, mustWrite(t, []Tensor{
		{"a", "F32", []int{2, 1}, floats(1, 2)}, {"b", "F32", []int{1}, floats(3)},
	}, nil)))
	a, b, c := Tensor{Name: "a", Shape: []int{2, 1}}, Tensor{Name: "b", Shape: []int{1}}, Tensor{Name: "c", Shape: []int{9}}
	for _, m := range []struct {
		want  []Tensor
		extra bool
		err   string
	}{
		{[]Tensor{b, a}, false, ""},
		{[]Tensor{a}, true, ""},
		{[]Tensor{a}, false, `the model has no tensor "b" [1]`},
		{[]Tensor{a, b, c}, true, `tensor "c" [9] is missing`},
		{[]Tensor{{Name: "a", Shape: []int{1, 2}}, b}, true, `tensor "a" has shape [2 1], the model wants [1 2]`},
	} {
		err := f.Match(m.want, m.extra)
		if m.err == "" && err != nil || m.err != "" && (err == nil || !strings.Contains(err.Error(), m.err) || exitcode.Of(err) != exitcode.Checkpoint) {
			t.Errorf("want %q, got %v", m.err, err)
		}
	}
}

// Whatever the bytes: no panic, no allocation beyond the input's size, and what
// is accepted can be read and written again.
func FuzzReader(f *testing.F) {
	f.Add(mustWrite(f, []Tensor{{"a", "F32", []int{2}, floats(1, 2)}, {"b", "U8", []int{0}, nil}}, map[string]string{"k": "v"}))
	f.Add(raw(entryJSON("[2]", "[4611686018427387906]"), "12345678"))
	f.Add(bytes.Repeat([]byte{0xff}, 16))
	f.Add(raw(`{"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]}}  `, "ab"))
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := newFile("fuzz", bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return
		}
		var again []Tensor
		var total int64
		for _, name := range file.Names() {
			info, ok := file.Info(name)
			if !ok || info.Bytes > int64(len(content)) {
				t.Fatalf("%q: %+v", name, info)
			}
			e, err := file.entry(name)
			if err != nil {
				t.Fatal(err)
			}
			data := make([]byte, info.Bytes)
			if err := readFull(bytes.NewReader(content), data, file.start+e.begin); err != nil {
				t.Fatal(err)
			}
			total += info.Bytes
			again = append(again, Tensor{name, info.DType, info.Shape, data})
		}
		if file.start+total != int64(len(content)) {
			t.Fatalf("%d bytes of %d are accounted for", file.start+total, len(content))
		}
		second := mustWrite(t, again, file.Metadata())
		parsed, err := newFile("again", bytes.NewReader(second), int64(len(second)))
		if err != nil {
			t.Fatal(err)
		}
		if len(parsed.Names()) != len(again) {
			t.Fatalf("%d tensors became %d", len(again), len(parsed.Names()))
		}
	})
}
