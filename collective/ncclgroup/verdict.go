package ncclgroup

import (
	"fmt"
	"slices"
	"strings"
)

// state is what a rank says it is doing, for others to explain a deadline that
// passed.
type state struct {
	// Next is the number of the next operation that will be enqueued: those
	// below it have been.
	Next uint64 `json:"next"`
	// Done is the number of operations that have ended, all below it.
	Done uint64 `json:"done"`
	// Computing: the device has not reached operation Done yet, because it
	// still computes what the operation waits for.
	Computing bool `json:"computing,omitempty"`
	// First is the number of Ops[0]; the last operations, as text.
	First uint64   `json:"first"`
	Ops   []string `json:"ops"`
	// Left: the rank has closed the group.
	Left bool `json:"left,omitempty"`
}

// op is the text of an operation, empty if the rank does not remember it or
// never came to it.
func (s state) op(seq uint64) string {
	if seq < s.First || seq >= s.First+uint64(len(s.Ops)) {
		return ""
	}
	return s.Ops[seq-s.First]
}

// verdict says why operation o of rank self did not end in time, from what
// each rank says; a rank without a state has not answered.
func verdict(o spec, self, size int, states map[int]state) (class, string) {
	mine := o.String()
	var dead, left, absent, computing []int
	for r := range size {
		s, ok := states[r]
		theirs := s.op(o.seq)
		switch {
		case r == self:
		case !ok:
			dead = append(dead, r)
		case theirs != "" && theirs != mine:
			return classMismatch, disagreement(self, mine, r, theirs)
		case s.Left:
			left = append(left, r)
		case s.Next <= o.seq:
			absent = append(absent, r)
		case s.Computing && s.Done == o.seq:
			computing = append(computing, r)
		}
	}
	var found []string
	if len(dead) > 0 {
		found = append(found, list(dead)+" does not answer: its process is gone, stopped, or cut off")
	}
	if len(left) > 0 {
		found = append(found, list(left)+" has closed the group")
	}
	for _, group := range byPlace(absent, states) {
		found = append(found, fmt.Sprintf("%s never came to it, %s", list(group), lastOf(states[group[0]])))
	}
	if len(computing) > 0 {
		found = append(found, list(computing)+" has enqueued it but still computes what it waits for")
	}
	if len(found) == 0 {
		found = append(found, fmt.Sprintf("all %d ranks have issued it: a GPU or the network between them is stuck", size))
	}
	return classTimeout, strings.Join(found, "; ")
}

// disagreement is the text of a mismatch, with the lower rank first so that
// it reads the same wherever it is found.
func disagreement(a int, mine string, b int, theirs string) string {
	if b < a {
		a, mine, b, theirs = b, theirs, a, mine
	}
	return fmt.Sprintf("rank %d runs %s, but rank %d runs %s", a, mine, b, theirs)
}

// byPlace gathers ranks that stopped at the same place.
func byPlace(ranks []int, states map[int]state) [][]int {
	var groups [][]int
	for _, r := range ranks {
		i := slices.IndexFunc(groups, func(g []int) bool { return lastOf(states[g[0]]) == lastOf(states[r]) })
		if i < 0 {
			groups = append(groups, []int{r})
			continue
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func lastOf(s state) string {
	if s.Next == 0 {
		return "nor to any operation"
	}
	text := s.op(s.Next - 1)
	if text == "" {
		text = fmt.Sprintf("#%d", s.Next-1)
	}
	if s.Done < s.Next {
		return "its last operation is " + text + ", not done"
	}
	return "its last operation is " + text
}
