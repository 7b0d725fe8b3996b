package nccl

import (
	"bytes"
	"math"
	"testing"
)

func TestVersionText(t *testing.T) {
	for v, want := range map[Version]string{2402: "2.4.2", 2803: "2.8.3", 21805: "2.18.5", 22809: "2.28.9", 23004: "2.30.4"} {
		if got := v.String(); got != want {
			t.Errorf("%d is %s, want %s", int(v), got, want)
		}
	}
}

func TestScalars(t *testing.T) {
	for _, c := range []struct {
		factor float64
		t      DataType
		want   []byte
	}{
		{0.25, Float64, []byte{0, 0, 0, 0, 0, 0, 0xd0, 0x3f}},
		{0.25, Float32, []byte{0, 0, 0x80, 0x3e}},
		{0.25, Bfloat16, []byte{0x80, 0x3e}},
		{0.25, Float16, []byte{0x00, 0x34}},
		{1.0 / 3, Bfloat16, []byte{0xab, 0x3e}},
		{1.0 / 3, Float16, []byte{0x55, 0x35}},
		{-2, Float16, []byte{0x00, 0xc0}},
		{65504, Float16, []byte{0xff, 0x7b}},
		{65520, Float16, []byte{0x00, 0x7c}},
		{0x1p-24, Float16, []byte{0x01, 0x00}},
		{0x1p-26, Float16, []byte{0x00, 0x00}},
		{float64(math.Nextafter32(0x1p-14, 0)), Float16, []byte{0x00, 0x04}},
		{2047.5, Float16, []byte{0x00, 0x68}}, // the mantissa carries into the exponent
	} {
		got, err := scalar(c.factor, c.t)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%v as type %d: % x (%v), want % x", c.factor, c.t, got, err, c.want)
		}
	}
	if _, err := scalar(1, Int32); err == nil {
		t.Error("a scalar for integers was made")
	}
}

// Every half is the rounding of itself, and of what lies closer to it than to
// its neighbours.
func TestHalfRoundTrip(t *testing.T) {
	value := func(h uint16) float64 {
		exp, frac := int(h>>10&31), float64(h&1023)
		if exp == 0 {
			return math.Ldexp(frac, -24)
		}
		return math.Ldexp(1024+frac, exp-25)
	}
	for h := uint16(0); h < 0x7c00; h++ {
		v := value(h)
		if got := half(float32(v)); got != h {
			t.Fatalf("half(%v) = %#x, want %#x", v, got, h)
		}
		if h+1 < 0x7c00 {
			above := v + (value(h+1)-v)*0.49
			if got := half(float32(above)); got != h {
				t.Fatalf("half(%v) = %#x, want %#x", above, got, h)
			}
		}
	}
}

func TestUniqueIDTravels(t *testing.T) {
	var a, b UniqueID
	for i := range a {
		a[i] = byte(i * 7)
	}
	raw, err := a.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.UnmarshalBinary(raw); err != nil || a != b {
		t.Fatalf("it came out different (%v)", err)
	}
	if err := b.UnmarshalBinary(raw[:127]); err == nil {
		t.Error("a cut id was taken")
	}
}
