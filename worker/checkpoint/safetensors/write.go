package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"unicode/utf8"
)

// maxHeader is the largest header a reader of the format takes.
const maxHeader = 100_000_000

// metadataKey holds the metadata among the names of a header.
const metadataKey = "__metadata__"

// Write writes a whole file. The bytes depend only on tensors and metadata, not
// on the order of tensors: the data is laid out by element type, wide ones
// first, then by name, as the reference implementation does. Data is written
// straight from the tensors, without a copy.
//
// Nothing is written when a tensor is refused: a doubled, reserved or non-UTF-8
// name, an unknown DType, Data whose length is not that of Shape.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	sorted, err := layout(tensors)
	if err != nil {
		return err
	}
	header, err := encodeHeader(sorted, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("safetensors: write header: %w", err)
	}
	for _, t := range sorted {
		if len(t.Data) == 0 {
			continue
		}
		if _, err := w.Write(t.Data); err != nil {
			return fmt.Errorf("safetensors: write tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// Size is the number of bytes that Write writes.
func Size(tensors []Tensor, metadata map[string]string) (int64, error) {
	sorted, err := layout(tensors)
	if err != nil {
		return 0, err
	}
	header, err := encodeHeader(sorted, metadata)
	if err != nil {
		return 0, err
	}
	size := int64(len(header))
	for _, t := range sorted {
		size += int64(len(t.Data))
	}
	return size, nil
}

// layout checks the tensors and returns them in the order of the file.
func layout(tensors []Tensor) ([]Tensor, error) {
	sorted := slices.Clone(tensors)
	total := int64(0)
	for _, t := range sorted {
		if err := checkName(t.Name); err != nil {
			return nil, err
		}
		size, err := sizeOf(t.DType, t.Shape)
		if err != nil {
			return nil, fmt.Errorf("safetensors: tensor %q: %w", t.Name, err)
		}
		if size != int64(len(t.Data)) {
			return nil, fmt.Errorf("safetensors: tensor %q: %d bytes of data, but %s%v has %d", t.Name, len(t.Data), t.DType, t.Shape, size)
		}
		if total > math.MaxInt64-size {
			return nil, fmt.Errorf("safetensors: tensor %q: more data than 64 bits can count", t.Name)
		}
		total += size
	}
	slices.SortFunc(sorted, func(a, b Tensor) int {
		da, _ := dtypeOf(a.DType)
		db, _ := dtypeOf(b.DType)
		return cmp.Or(cmp.Compare(db.rank, da.rank), cmp.Compare(a.Name, b.Name))
	})
	return sorted, checkDistinct(sorted)
}

func checkName(name string) error {
	switch {
	case name == metadataKey:
		return fmt.Errorf("safetensors: the tensor name %q is reserved", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("safetensors: the tensor name %q is not UTF-8", name)
	}
	return nil
}

func checkDistinct(tensors []Tensor) error {
	seen := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		if seen[t.Name] {
			return fmt.Errorf("safetensors: two tensors are named %q", t.Name)
		}
		seen[t.Name] = true
	}
	return nil
}

// encodeHeader returns everything in front of the data: the length and the
// JSON, padded to a multiple of 8 bytes.
func encodeHeader(sorted []Tensor, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	if len(metadata) > 0 {
		if err := encodeMetadata(&b, metadata); err != nil {
			return nil, err
		}
		if len(sorted) > 0 {
			b.WriteByte(',')
		}
	}
	offset := int64(0)
	for i, t := range sorted {
		if i > 0 {
			b.WriteByte(',')
		}
		end := offset + int64(len(t.Data))
		writeString(&b, t.Name)
		fmt.Fprintf(&b, `:{"dtype":%q,"shape":[`, t.DType)
		for j, dim := range t.Shape {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprint(&b, dim)
		}
		fmt.Fprintf(&b, `],"data_offsets":[%d,%d]}`, offset, end)
		offset = end
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len()-8 > maxHeader {
		return nil, fmt.Errorf("safetensors: the header of %d tensors has %d bytes, more than the %d a reader takes", len(sorted), b.Len()-8, maxHeader)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-8))
	return b.Bytes(), nil
}

func encodeMetadata(b *bytes.Buffer, metadata map[string]string) error {
	b.WriteString(`"` + metadataKey + `":{`)
	for i, key := range slices.Sorted(maps.Keys(metadata)) {
		if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
			return fmt.Errorf("safetensors: the metadata %q: %q is not UTF-8", key, metadata[key])
		}
		if i > 0 {
			b.WriteByte(',')
		}
		writeString(b, key)
		b.WriteByte(':')
		writeString(b, metadata[key])
	}
	b.WriteByte('}')
	return nil
}

// writeString writes s as JSON without the HTML escapes that Go adds, as other
// writers of the format do.
func writeString(b *bytes.Buffer, s string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)       // a valid string into memory cannot fail
	b.Truncate(b.Len() - 1) // the line feed of Encode
}
