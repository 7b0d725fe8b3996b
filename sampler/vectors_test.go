package sampler

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
)

// vectors are numbers that PyTorch produced (see "origin" in the file).
type vectors struct {
	Engine []struct {
		Seed  int64    `json:"seed"`
		First []uint32 `json:"u32_first5"`
	} `json:"engine"`
	RandPerm []struct {
		N     int    `json:"n"`
		Seed  int64  `json:"seed"`
		First []int  `json:"first"`
		Last  []int  `json:"last"`
		All   []int  `json:"all"`
		Hash  string `json:"sha256_i64le"`
	} `json:"randperm"`
	Sampler []struct {
		N          int      `json:"n"`
		World      int      `json:"world"`
		Seed       int64    `json:"seed"`
		Epoch      int      `json:"epoch"`
		Shuffle    bool     `json:"shuffle"`
		DropLast   bool     `json:"drop_last"`
		NumSamples int      `json:"num_samples"`
		TotalSize  int      `json:"total_size"`
		Ranks      [][]int  `json:"ranks"`
		Hashes     []string `json:"ranks_sha256_i64le"`
	} `json:"sampler"`
}

func loadVectors(t *testing.T) vectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/sampler_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Engine) < 2 || len(v.RandPerm) < 6 || len(v.Sampler) < 10 {
		t.Fatalf("vectors are missing: %d engine, %d randperm, %d sampler", len(v.Engine), len(v.RandPerm), len(v.Sampler))
	}
	return v
}

// hashOf is the hash of the vectors file: indices as little-endian int64.
func hashOf(indices []int) string {
	h := sha256.New()
	for _, i := range indices {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(i)))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func TestGeneratorMatchesVectors(t *testing.T) {
	for _, v := range loadVectors(t).Engine {
		g := NewGenerator(v.Seed)
		for i, want := range v.First {
			if got := g.Uint32(); got != want {
				t.Errorf("seed %d word %d: got %d, want %d", v.Seed, i, got, want)
			}
		}
	}
}

func TestRandPermMatchesVectors(t *testing.T) {
	for _, v := range loadVectors(t).RandPerm {
		got := RandPerm(v.N, v.Seed)
		if len(got) != v.N || hashOf(got) != v.Hash {
			t.Errorf("RandPerm(%d, %d): hash %s, want %s", v.N, v.Seed, hashOf(got), v.Hash)
		}
		if len(v.All) == v.N && !slices.Equal(got, v.All) {
			t.Errorf("RandPerm(%d, %d) = %v, want %v", v.N, v.Seed, got, v.All)
		}
		if !slices.Equal(got[:len(v.First)], v.First) || !slices.Equal(got[len(got)-len(v.Last):], v.Last) {
			t.Errorf("RandPerm(%d, %d): ends differ", v.N, v.Seed)
		}
		if n32 := permute[uint32](v.N, v.Seed); !slices.EqualFunc(got, n32, func(a int, b uint32) bool { return a == int(b) }) {
			t.Errorf("RandPerm(%d, %d): the narrow permutation differs", v.N, v.Seed)
		}
	}
}

func TestSamplerMatchesVectors(t *testing.T) {
	for _, v := range loadVectors(t).Sampler {
		name := fmt.Sprintf("n=%d/world=%d/epoch=%d/shuffle=%t/drop=%t", v.N, v.World, v.Epoch, v.Shuffle, v.DropLast)
		t.Run(name, func(t *testing.T) {
			if len(v.Ranks) != v.World {
				t.Fatalf("the vector has %d ranks", len(v.Ranks))
			}
			for rank, want := range v.Ranks {
				s := mustNew(t, Config{Length: v.N, WorldSize: v.World, Rank: rank, Shuffle: v.Shuffle, Seed: v.Seed, DropLast: v.DropLast})
				got := s.Indices(v.Epoch)
				if !slices.Equal(got, want) || hashOf(got) != v.Hashes[rank] {
					t.Errorf("rank %d: got %v, want %v", rank, got, want)
				}
				if s.NumSamples() != v.NumSamples || s.TotalSize() != v.TotalSize {
					t.Errorf("rank %d: %d of %d samples, want %d of %d", rank, s.NumSamples(), s.TotalSize(), v.NumSamples, v.TotalSize)
				}
			}
		})
	}
}

func mustNew(t testing.TB, cfg Config) *Sampler {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
