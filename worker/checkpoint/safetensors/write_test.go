package safetensors

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// floats is the data of a tensor.
func floats(values ...float32) []byte { return bytes.Clone(Float32Bytes(values)) }

func mustWrite(t testing.TB, tensors []Tensor, metadata map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Bytes of the reference implementation's own test_serialization and
// test_empty.
func TestWriteMatchesReferenceBytes(t *testing.T) {
	header := "\x40\x00\x00\x00\x00\x00\x00\x00" + `{"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}}`
	want := append([]byte(header), 0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64, 0, 0, 160, 64)
	got := mustWrite(t, []Tensor{{"attn.0", "F32", []int{1, 2, 3}, floats(0, 1, 2, 3, 4, 5)}}, nil)
	if !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := mustWrite(t, nil, nil), "\x08\x00\x00\x00\x00\x00\x00\x00{}      "; string(got) != want {
		t.Errorf("empty file: got %q, want %q", got, want)
	}
}

func TestWriteLaysOutWideTypesFirst(t *testing.T) {
	tensors := []Tensor{
		{"b", "U8", []int{3}, []byte{1, 2, 3}},
		{"c", "F32", []int{}, floats(1)},
		{"z", "I64", []int{1}, make([]byte, 8)},
		{"a", "F32", []int{0, 5}, nil},
		{"h", "BF16", []int{1}, []byte{7, 8}},
	}
	got := mustWrite(t, tensors, map[string]string{"x": "<&>", "format": "pt"})
	header := `{"__metadata__":{"format":"pt","x":"<&>"},` +
		`"z":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},` +
		`"a":{"dtype":"F32","shape":[0,5],"data_offsets":[8,8]},` +
		`"c":{"dtype":"F32","shape":[],"data_offsets":[8,12]},` +
		`"h":{"dtype":"BF16","shape":[1],"data_offsets":[12,14]},` +
		`"b":{"dtype":"U8","shape":[3],"data_offsets":[14,17]}}`
	if !strings.HasPrefix(string(got[8:]), header) {
		t.Errorf("header: %q", got[8:])
	}
	for i := range tensors { // any order in gives the same bytes out
		rotated := append(append([]Tensor{}, tensors[i:]...), tensors[:i]...)
		if !bytes.Equal(mustWrite(t, rotated, map[string]string{"format": "pt", "x": "<&>"}), got) {
			t.Errorf("rotated by %d: other bytes", i)
		}
	}
	if (len(got)-17)%8 != 0 {
		t.Errorf("the data begins at byte %d", len(got)-17)
	}
	size, err := Size(tensors, map[string]string{"format": "pt", "x": "<&>"})
	if err != nil || size != int64(len(got)) {
		t.Errorf("Size says %d (%v), written were %d", size, err, len(got))
	}
}

func TestWriteRefuses(t *testing.T) {
	one := Tensor{"a", "F32", []int{1}, floats(1)}
	for _, c := range []struct {
		what     string
		tensors  []Tensor
		metadata map[string]string
	}{
		{`two tensors are named "a"`, []Tensor{one, one}, nil},
		{`two tensors are named "a"`, []Tensor{one, {"a", "U8", []int{1}, []byte{1}}}, nil},
		{`"__metadata__" is reserved`, []Tensor{{"__metadata__", "F32", []int{1}, floats(1)}}, nil},
		{`unknown dtype "f32"`, []Tensor{{"a", "f32", []int{1}, floats(1)}}, nil},
		{`8 bytes of data, but F32[1] has 4`, []Tensor{{"a", "F32", []int{1}, floats(1, 2)}}, nil},
		{`negative dimension`, []Tensor{{"a", "F32", []int{-1, -1}, floats(1)}}, nil},
		{`overflows`, []Tensor{{"a", "F32", []int{1 << 40, 1 << 40}, nil}}, nil},
		{`not UTF-8`, []Tensor{{"a\xff", "F32", []int{1}, floats(1)}}, nil},
		{`not UTF-8`, nil, map[string]string{"k": "\xff"}},
	} {
		var b bytes.Buffer
		err := Write(&b, c.tensors, c.metadata)
		if err == nil || !strings.Contains(err.Error(), c.what) {
			t.Errorf("want %q, got %v", c.what, err)
		}
		if b.Len() > 0 {
			t.Errorf("%s: %d bytes were written", c.what, b.Len())
		}
		if _, err := Size(c.tensors, c.metadata); err == nil {
			t.Errorf("%s: Size accepts it", c.what)
		}
	}
}

// shortWriter fails at a byte.
type shortWriter struct{ left int }

var errShort = errors.New("no room")

func (w *shortWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return w.left, errShort
	}
	w.left -= len(p)
	return len(p), nil
}

func TestWriteReportsEveryFailedWrite(t *testing.T) {
	tensors := []Tensor{{"a", "F32", []int{2}, floats(1, 2)}, {"b", "F32", []int{1}, floats(3)}}
	size := len(mustWrite(t, tensors, nil))
	for room := range size {
		if err := Write(&shortWriter{room}, tensors, nil); !errors.Is(err, errShort) {
			t.Fatalf("room for %d of %d bytes: %v", room, size, err)
		}
	}
	if err := Write(&shortWriter{size}, tensors, nil); err != nil {
		t.Fatal(err)
	}
}
