package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// entry is a tensor of a header with its place in the data.
type entry struct {
	name       string
	info       Info
	begin, end int64
}

// header is a parsed and checked header; entries lie in the order of the data.
type header struct {
	entries  []entry
	metadata map[string]string
}

// parseHeader parses the JSON of a header whose data has dataSize bytes. It
// checks every rule of the format, so that what it returns can be read.
//
// The JSON is read token by token: a decoder into Go structures would take the
// second of two equal names, and other spellings of a field, in silence.
func parseHeader(text []byte, dataSize int64) (header, error) {
	switch {
	case len(text) == 0 || text[0] != '{':
		return header{}, errors.New("the header does not begin with '{'")
	case !utf8.Valid(text):
		return header{}, fmt.Errorf("the header is not UTF-8 (byte %d of it)", invalidAt(text))
	}
	p := headerParser{dec: json.NewDecoder(bytes.NewReader(text)), names: make(map[string]bool)}
	p.dec.UseNumber()
	if err := p.header(); err != nil {
		return header{}, err
	}
	slices.SortFunc(p.h.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	return p.h, checkPlaces(p.h.entries, dataSize)
}

func invalidAt(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}

// checkPlaces wants the tensors to fill the data without holes or overlaps.
func checkPlaces(entries []entry, dataSize int64) error {
	end, previous := int64(0), "the start of the data"
	for _, e := range entries {
		if e.begin != end {
			what := "a hole"
			if e.begin < end {
				what = "an overlap"
			}
			return fmt.Errorf("tensor %q begins at byte %d of the data, but %s ends at %d: %s", e.name, e.begin, previous, end, what)
		}
		if e.end > dataSize {
			return fmt.Errorf("tensor %q ends at byte %d of the data, which has %d: the file is cut or its header is wrong", e.name, e.end, dataSize)
		}
		end, previous = e.end, strconv.Quote(e.name)
	}
	if end != dataSize {
		return fmt.Errorf("%d bytes are left over behind the last tensor (the tensors have %d bytes, the data %d)", dataSize-end, end, dataSize)
	}
	return nil
}

// headerParser walks the tokens of a header.
type headerParser struct {
	dec   *json.Decoder
	names map[string]bool
	h     header
}

func (p *headerParser) header() error {
	err := p.object(func(name string) error {
		if p.names[name] {
			return fmt.Errorf("the name %q comes twice in the header", name)
		}
		p.names[name] = true
		if name == metadataKey {
			return p.metadata()
		}
		return p.entry(name)
	})
	if err != nil {
		return err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the header goes on behind its end (byte %d of it)", p.dec.InputOffset())
	}
	return nil
}

func (p *headerParser) metadata() error {
	p.h.metadata = make(map[string]string)
	return p.object(func(key string) error {
		value, err := p.string("the metadata " + strconv.Quote(key))
		if _, twice := p.h.metadata[key]; err == nil && twice {
			return fmt.Errorf("the metadata %q comes twice", key)
		}
		p.h.metadata[key] = value
		return err
	})
}

func (p *headerParser) entry(name string) error {
	e := entry{name: name}
	seen := make(map[string]bool, 3)
	err := p.object(func(field string) error {
		if seen[field] {
			return fmt.Errorf("tensor %q: the field %q comes twice", name, field)
		}
		seen[field] = true
		return p.field(&e, field)
	})
	if err != nil {
		return err
	}
	for _, field := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[field] {
			return fmt.Errorf("tensor %q: the field %q is missing", name, field)
		}
	}
	size, err := sizeOf(e.info.DType, e.info.Shape)
	if err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	if e.begin > e.end {
		return fmt.Errorf("tensor %q: data_offsets [%d, %d] run backwards", name, e.begin, e.end)
	}
	if e.end-e.begin != size {
		return fmt.Errorf("tensor %q: data_offsets [%d, %d] hold %d bytes, but %s%v has %d", name, e.begin, e.end, e.end-e.begin, e.info.DType, e.info.Shape, size)
	}
	e.info.Bytes = size
	p.h.entries = append(p.h.entries, e)
	return nil
}

func (p *headerParser) field(e *entry, field string) error {
	place := fmt.Sprintf("tensor %q: %s", e.name, field)
	switch field {
	case "dtype":
		dtype, err := p.string(place)
		e.info.DType = dtype
		return err
	case "shape":
		e.info.Shape = []int{}
		return p.numbers(place, func(v int64) { e.info.Shape = append(e.info.Shape, int(v)) })
	case "data_offsets":
		var pair []int64
		if err := p.numbers(place, func(v int64) { pair = append(pair, v) }); err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("%s: %d numbers where two are due", place, len(pair))
		}
		e.begin, e.end = pair[0], pair[1]
		return nil
	}
	// Fields of later versions of the format are passed over, as the reference
	// implementation does.
	var skipped json.RawMessage
	return p.syntax(p.dec.Decode(&skipped))
}

// object reads an object, calling member in front of each value.
func (p *headerParser) object(member func(key string) error) error {
	if err := p.delim('{', "an object"); err != nil {
		return err
	}
	for p.dec.More() {
		key, err := p.string("a key")
		if err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
	}
	return p.delim('}', "the end of an object")
}

// numbers reads an array of whole numbers from 0 to 2^63-1.
func (p *headerParser) numbers(place string, each func(int64)) error {
	if err := p.delim('[', place+": an array"); err != nil {
		return err
	}
	for p.dec.More() {
		token, err := p.dec.Token()
		if err != nil {
			return p.syntax(err)
		}
		number, ok := token.(json.Number)
		if !ok {
			return fmt.Errorf("%s: found %v where a number is due", place, token)
		}
		v, err := strconv.ParseInt(number.String(), 10, 64)
		if err != nil || v < 0 {
			return fmt.Errorf("%s: %s is not a whole number from 0 to 2^63-1", place, number)
		}
		each(v)
	}
	return p.delim(']', place+": the end of an array")
}

func (p *headerParser) string(place string) (string, error) {
	token, err := p.dec.Token()
	if err != nil {
		return "", p.syntax(err)
	}
	s, ok := token.(string)
	if !ok {
		return "", fmt.Errorf("%s: found %v where a string is due", place, token)
	}
	return s, nil
}

func (p *headerParser) delim(want json.Delim, place string) error {
	token, err := p.dec.Token()
	if err != nil {
		return p.syntax(err)
	}
	if token != want {
		return fmt.Errorf("found %v where %s is due (byte %d of the header)", token, place, p.dec.InputOffset())
	}
	return nil
}

// syntax says where the JSON is broken.
func (p *headerParser) syntax(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the header is not JSON (near byte %d of it): %w", p.dec.InputOffset(), err)
}
