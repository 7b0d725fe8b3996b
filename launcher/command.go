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

// environ adds the command's own variables to base, in a fixed order; those of
// the rank replace those of all.
func (c Command) environ(base []string, localRank int) []string {
	own := maps.Clone(c.Env)
	if localRank < len(c.RankEnv) {
		if own == nil {
			own = map[string]string{}
		}
		maps.Copy(own, c.RankEnv[localRank])
	}
	if len(own) == 0 {
		return base
	}
	out := slices.DeleteFunc(slices.Clone(base), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, replaced := own[name]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(own)) {
		out = append(out, name+"="+substitute(own[name], localRank))
	}
	return out
}

// substitute replaces ${local_rank}, as torchrun does. Other dollars stay as
// they are; "$$" too, which torchrun would shorten.
func substitute(text string, localRank int) string {
	return strings.ReplaceAll(text, "${local_rank}", strconv.Itoa(localRank))
}
