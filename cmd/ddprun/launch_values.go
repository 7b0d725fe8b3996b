package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/launcher"
)

// values collects what is wrong with flag values.
type values struct{ errs []error }

func (v *values) bad(format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf(format, args...))
}

func (v *values) err() error { return exitcode.With(errors.Join(v.errs...), exitcode.Usage) }

// whole reads a plain decimal number: no sign, blank, point or exponent.
func (v *values) whole(flag, text string, low, high int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high || strings.Trim(text, "0123456789") != "" {
		v.bad("--%s is %q: want a whole number from %d to %d", flag, text, low, high)
		return low
	}
	return n
}

// duration reads "90s", "10m", or a number of seconds.
func (v *values) duration(flag, text string, low time.Duration) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		var seconds float64
		seconds, err = strconv.ParseFloat(text, 64)
		d = time.Duration(seconds * float64(time.Second))
		if seconds > 1e9 || seconds != seconds {
			err = errors.New("too large")
		}
	}
	if err != nil || d < low {
		v.bad("--%s is %q: want a time such as 90s, 10m or 30 (seconds), at least %v", flag, text, low)
		return low
	}
	return d
}

// ranks reads --nproc-per-node or launch.nproc_per_node; count says how many a
// word means.
func (v *values) ranks(where, text string, count func(word string) (int, error)) (int, error) {
	if slices.Contains(countWords, text) {
		n, err := count(text)
		if err != nil {
			return 1, fmt.Errorf("%s %s: %w", where, text, err)
		}
		if n > launcher.MaxRanks {
			v.bad("%s %s means %d processes: want at most %d", where, text, n, launcher.MaxRanks)
		}
		return n, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > launcher.MaxRanks || strings.Trim(text, "0123456789") != "" {
		v.bad("%s is %q: want a whole number from 1 to %d, auto, cpu or gpu", where, text, launcher.MaxRanks)
		return 1, nil
	}
	return n, nil
}

// nodes reads "N" or "MIN:MAX" and refuses what needs several nodes.
func (v *values) nodes(where, text string) {
	low, high, ranged := strings.Cut(text, ":")
	if !ranged {
		high = low
	}
	a, errA := strconv.Atoi(low)
	b, errB := strconv.Atoi(high)
	switch {
	case errA != nil || errB != nil || a < 1 || b < a || strings.Trim(text, "0123456789:") != "":
		v.bad("%s is %q: want N or MIN:MAX with 1 <= MIN <= MAX", where, text)
	case a > 1:
		v.bad("%s is %q: several nodes are not available in this version", where, text)
	}
}

// endpoint reads HOST:PORT; both are needed, IPv6 addresses stand in brackets.
func (v *values) endpoint(flag, text string) launcher.Endpoint {
	host, portText, err := net.SplitHostPort(text)
	port, portErr := strconv.Atoi(portText)
	switch {
	case err != nil && strings.Count(text, ":") > 1 && strings.Trim(strings.ToLower(text), "0123456789abcdef:.") == "":
		v.bad("--%s is %q: an IPv6 address stands in brackets, [::1]:29500", flag, text)
	case err != nil || portErr != nil || port < 0 || port > 65535 || len(portText) > 5 || strings.Trim(portText, "0123456789") != "":
		v.bad("--%s is %q: want HOST:PORT with a port from 0 (any) to 65535", flag, text)
	case !validHost(host):
		v.bad("--%s is %q: %q is no host name or address", flag, text, host)
	default:
		return launcher.Endpoint{Addr: host, Port: port}
	}
	return launcher.Endpoint{}
}

func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && len(host) <= 253 && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// master is where rank 0 listens: the endpoint, else what older scripts give.
func (v *values) master(f *launchFlags) launcher.Endpoint {
	if f.standalone {
		return launcher.Endpoint{}
	}
	if f.rdzvEndpoint != "" {
		return v.endpoint("rdzv-endpoint", f.rdzvEndpoint)
	}
	var e launcher.Endpoint
	if f.masterPort != "" {
		e.Port = v.whole("master-port", f.masterPort, 0, 65535)
	}
	if f.masterAddr != "" {
		e.Addr = strings.TrimSuffix(strings.TrimPrefix(f.masterAddr, "["), "]")
		if !validHost(e.Addr) {
			v.bad("--master-addr is %q: no host name or address", f.masterAddr)
		}
	}
	return e
}

func (v *values) rendezvous(f *launchFlags) {
	switch f.rdzvBackend {
	case "", "static", "c10d":
	default:
		v.bad("--rdzv-backend is %q: want static or c10d", f.rdzvBackend)
	}
	if f.rdzvConf == "" {
		return
	}
	for pair := range strings.SplitSeq(f.rdzvConf, ",") {
		if key, value, ok := strings.Cut(pair, "="); !ok || key == "" || value == "" {
			v.bad("--rdzv-conf has %q in it: want KEY=VALUE,...", pair)
		}
	}
}

// streams is what --redirects or --tee say of each local rank: bit 1 stdout,
// bit 2 stderr.
type streams struct {
	all   int
	ranks map[int]int // overrides all; ranks that are not in it have 0
}

func (s streams) of(rank int) int {
	if s.ranks != nil {
		return s.ranks[rank]
	}
	return s.all
}

func (v *values) streams(flag, text string, ranks int) streams {
	digit := func(t string) (int, bool) {
		return int(t[0] - '0'), len(t) == 1 && t[0] >= '0' && t[0] <= '3'
	}
	if text != "" && !strings.Contains(text, ":") {
		if d, ok := digit(text); ok {
			return streams{all: d}
		}
	}
	s := streams{ranks: map[int]int{}}
	for part := range strings.SplitSeq(text, ",") {
		rankText, bits, _ := strings.Cut(part, ":")
		rank, err := strconv.Atoi(rankText)
		if err != nil || rank < 0 || rank >= ranks || bits == "" {
			v.bad("--%s is %q: want a digit from 0 to 3, or LOCAL_RANK:DIGIT,... with local ranks below %d", flag, text, ranks)
			return streams{}
		}
		d, ok := digit(bits)
		if !ok {
			v.bad("--%s is %q: %q is no digit from 0 to 3", flag, text, bits)
			return streams{}
		}
		s.ranks[rank] = d
	}
	return s
}

// output turns the three flags about the console into one question.
func (v *values) output(f *launchFlags, ranks int) func(int) (bool, bool) {
	hidden, kept := v.streams("redirects", f.redirects, ranks), v.streams("tee", f.tee, ranks)
	var only map[int]bool
	if f.localRanksFilter != "" {
		only = map[int]bool{}
		for part := range strings.SplitSeq(f.localRanksFilter, ",") {
			only[v.whole("local-ranks-filter", part, 0, ranks-1)] = true
		}
	}
	return func(rank int) (bool, bool) {
		if only != nil && !only[rank] {
			return false, false
		}
		bits := hidden.of(rank) &^ kept.of(rank)
		return bits&1 == 0, bits&2 == 0
	}
}
