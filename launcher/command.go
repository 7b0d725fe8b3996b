package launcher

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// args returns the command line of a local rank.
func (c Command) args(localRank int) []string {
	out := make([]string, len(c.Args))
	for i, a := range c.Args {
		out[i] = substitute(a, localRank)
	}
	return out
}

// environ adds the command's own variables to base, in a fixed order.
func (c Command) environ(base []string, localRank int) []string {
	if len(c.Env) == 0 {
		return base
	}
	out := slices.DeleteFunc(slices.Clone(base), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, replaced := c.Env[name]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		out = append(out, name+"="+substitute(c.Env[name], localRank))
	}
	return out
}

// substitute replaces ${local_rank}, as torchrun does. Other dollars stay as
// they are; "$$" too, which torchrun would shorten.
func substitute(text string, localRank int) string {
	return strings.ReplaceAll(text, "${local_rank}", strconv.Itoa(localRank))
}
