package safetensors

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// slowHalf is the value of a half by the formula of IEEE 754.
func slowHalf(h uint16) float64 {
	sign := 1 - 2*float64(h>>15)
	exponent, fraction := int(h>>10&31), float64(h&1023)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return sign * math.Inf(1)
	case exponent == 0:
		return sign * math.Ldexp(fraction/1024, -14)
	}
	return sign * math.Ldexp(1+fraction/1024, exponent-15)
}

func TestEveryHalf(t *testing.T) {
	raw := make([]byte, 0, 2<<16)
	for h := range 1 << 16 {
		raw = binary.LittleEndian.AppendUint16(raw, uint16(h))
	}
	f := mustOpen(t, writeFile(t, mustWrite(t, []Tensor{{"h", "F16", []int{1 << 16}, raw}, {"b", "BF16", []int{1 << 16}, raw}}, nil)))
	half, err := f.ReadFloat32("h")
	if err != nil {
		t.Fatal(err)
	}
	brain, err := f.ReadFloat32("b")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1 << 16 {
		want, got := slowHalf(uint16(i)), float64(half[i])
		if math.IsNaN(want) != math.IsNaN(got) || !math.IsNaN(want) && (want != got || math.Signbit(want) != math.Signbit(got)) {
			t.Fatalf("half %#04x: got %v, want %v", i, got, want)
		}
		if bits := math.Float32bits(brain[i]); bits != uint32(i)<<16 {
			t.Fatalf("bfloat16 %#04x: got bits %#x", i, bits)
		}
	}
}

func TestReadFloat32OfWiderTypes(t *testing.T) {
	var wide []byte
	for _, v := range []float64{1.5, math.Pi, 1e300, math.Copysign(0, -1), math.NaN()} {
		wide = binary.LittleEndian.AppendUint64(wide, math.Float64bits(v))
	}
	f := mustOpen(t, writeFile(t, mustWrite(t, []Tensor{
		{"d", "F64", []int{5}, wide}, {"i", "I64", []int{5}, wide}, {"f", "F32", []int{2}, floats(3, -4)}, {"none", "F32", []int{0}, nil},
	}, nil)))
	got, err := f.ReadFloat32("d")
	if err != nil || len(got) != 5 || got[0] != 1.5 || got[1] != float32(math.Pi) || !math.IsInf(float64(got[2]), 1) || got[3] != 0 || !math.Signbit(float64(got[3])) || got[4] == got[4] {
		t.Errorf("F64: %v %v", got, err)
	}
	if got, err := f.ReadFloat32("f"); err != nil || len(got) != 2 || got[0] != 3 || got[1] != -4 {
		t.Errorf("F32: %v %v", got, err)
	}
	if got, err := f.ReadFloat32("none"); err != nil || len(got) != 0 {
		t.Errorf("empty F32: %v %v", got, err)
	}
	if _, err := f.ReadFloat32("i"); err == nil || !strings.Contains(err.Error(), `tensor "i" is I64`) {
		t.Errorf("I64: %v", err)
	}
	if _, err := f.ReadFloat32("nope"); err == nil {
		t.Error("a tensor that is not there")
	}
}

func TestFloat32BytesIsAView(t *testing.T) {
	values := []float32{1, 2}
	b := Float32Bytes(values)
	if len(b) != 8 || b[3] != 0x3f || b[2] != 0x80 {
		t.Errorf("bytes % x", b)
	}
	if values[1] = 4; littleEndian() && b[7] != 0x40 || len(Float32Bytes(nil)) != 0 {
		t.Error("not a view")
	}
}
