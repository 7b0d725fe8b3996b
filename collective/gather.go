package collective

import "context"

// AllGatherBytes exchanges texts of different lengths: element k of the result
// is rank k's. Every rank of g must call it.
func AllGatherBytes(ctx context.Context, g Group, own []byte) ([][]byte, error) {
	lengths := make([]int64, g.Size())
	if err := g.AllGather(HostBuffer(lengths), HostBuffer([]int64{int64(len(own))})).Wait(ctx); err != nil {
		return nil, err
	}
	longest := int64(0)
	for _, n := range lengths {
		longest = max(longest, n)
	}
	texts := make([][]byte, g.Size())
	if longest == 0 {
		return texts, nil
	}
	padded, all := make([]byte, longest), make([]byte, longest*int64(g.Size()))
	copy(padded, own)
	if err := g.AllGather(HostBuffer(all), HostBuffer(padded)).Wait(ctx); err != nil {
		return nil, err
	}
	for k, n := range lengths {
		texts[k] = all[int64(k)*longest:][:n]
	}
	return texts, nil
}

// BroadcastBytes gives every rank root's bytes. Every rank of g must call it;
// own counts on root alone.
func BroadcastBytes(ctx context.Context, g Group, own []byte, root int) ([]byte, error) {
	length := []int64{int64(len(own))}
	if err := g.Broadcast(HostBuffer(length), root).Wait(ctx); err != nil {
		return nil, err
	}
	if g.Rank() != root {
		own = make([]byte, length[0])
	}
	if len(own) == 0 {
		return own, nil
	}
	return own, g.Broadcast(HostBuffer(own), root).Wait(ctx)
}
