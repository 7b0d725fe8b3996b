package ddp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/ddprun/ddprun/collective"
	"github.com/ddprun/ddprun/worker/nn"
)

// verify compares names, shapes and types of parameters and buffers across
// ranks: first a digest, and the whole list only where the digests differ. The
// error is the same on every rank.
func verify(ctx context.Context, g collective.Group, ps *nn.Parameters) error {
	if g.Size() == 1 {
		return nil
	}
	text := describe(ps)
	sum := sha256.Sum256([]byte(text))
	sums := make([]byte, g.Size()*len(sum))
	if err := g.AllGather(collective.HostBuffer(sums), collective.HostBuffer(sum[:])).Wait(ctx); err != nil {
		return fmt.Errorf("comparing the model across ranks: %w", err)
	}
	same := true
	for k := range g.Size() {
		same = same && bytes.Equal(sums[k*len(sum):(k+1)*len(sum)], sums[:len(sum)])
	}
	if same {
		return nil
	}
	texts, err := collective.AllGatherBytes(ctx, g, []byte(text))
	if err != nil {
		return fmt.Errorf("comparing the model across ranks: %w", err)
	}
	for k := 1; k < len(texts); k++ {
		if diff := firstDifference(string(texts[0]), string(texts[k])); diff != "" {
			return fmt.Errorf("the model differs between ranks: rank 0 and rank %d: %s", k, diff)
		}
	}
	return fmt.Errorf("the model differs between ranks")
}

// describe has one line for each parameter and buffer.
func describe(ps *nn.Parameters) string {
	var b strings.Builder
	for _, p := range ps.Params {
		fmt.Fprintf(&b, "parameter %s %s%v\n", p.Name, p.Value.DType(), p.Shape)
	}
	for _, u := range ps.Buffers {
		fmt.Fprintf(&b, "buffer %s %s%v\n", u.Name, u.Value.DType(), u.Shape)
	}
	return b.String()
}

// firstDifference is the first line in which a and b differ, in words.
func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	line := func(lines []string, i int) string {
		if i < len(lines) && lines[i] != "" {
			return lines[i]
		}
		return "nothing more"
	}
	for i := range max(len(as), len(bs)) {
		if x, y := line(as, i), line(bs, i); x != y {
			return fmt.Sprintf("%s against %s", x, y)
		}
	}
	return ""
}
