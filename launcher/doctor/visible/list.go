package visible

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ddprun/ddprun/internal/exitcode"
	"github.com/ddprun/ddprun/launcher/doctor/probe"
)

// Variable is the name of the list.
const Variable = "CUDA_VISIBLE_DEVICES"

// Device is one that a rank can be given.
type Device struct {
	Entry string     // for a rank's CUDA_VISIBLE_DEVICES
	GPU   *probe.GPU // nil: a MIG slice that cannot be looked up here
}

// List is what there is to hand out, in order.
type List struct {
	Devices []Device
	// Why says why there are no devices.
	Why string
	// ByID: a device is named by UUID or MIG id.
	ByID  bool
	Notes []string // what the reader should know, a line each
}

// Empty says whether the variable's value hides all devices: nothing, -1, or
// Slurm's word for no device.
func Empty(value string) bool {
	first, _, _ := strings.Cut(value, ",")
	n, ok := number(strings.TrimSpace(first))
	return strings.TrimSpace(value) == "" || strings.TrimSpace(value) == "NoDevFiles" || ok && n < 0
}

// Read says what of machine's devices is visible. value is the variable's; set
// is false when it is not in the environment, which makes all visible. The
// error has exit class Machine.
func Read(value string, set bool, machine probe.Machine) (List, error) {
	if set && Empty(value) {
		return List{Why: fmt.Sprintf("%s is %q: the list is empty, which hides every GPU", Variable, value)}, nil
	}
	if machine.Absent != "" {
		return List{Why: machine.Absent}, nil
	}
	r := reader{machine: machine, places: map[string]int{}}
	if !set {
		r.all()
	} else {
		r.listed(value)
	}
	if r.err != nil {
		return List{}, exitcode.With(r.err, exitcode.Machine)
	}
	if len(r.list.Devices) == 0 {
		r.list.Why = "the driver knows no GPU"
		if len(machine.GPUs) > 0 {
			r.list.Why = strings.Join(r.list.Notes, "; ")
		}
	}
	return r.list, nil
}

type reader struct {
	machine probe.Machine
	list    List
	places  map[string]int // of what has been taken
	err     error
}

// all takes every GPU. One that is split into MIG slices is its slices: CUDA
// gives a process one slice and never the whole.
func (r *reader) all() {
	for i := range r.machine.GPUs {
		g := &r.machine.GPUs[i]
		switch {
		case g.Fault != "":
			r.err = lost("GPU "+strconv.Itoa(g.Index), g)
			return
		case g.MIG == nil || !g.MIG.Enabled:
			r.list.Devices = append(r.list.Devices, Device{strconv.Itoa(g.Index), g})
		case len(g.MIG.Slices) == 0:
			r.note("GPU %d is in MIG mode and has no slice that a process could use (nvidia-smi mig -cgi ... -C makes some)", g.Index)
		default:
			for _, s := range g.MIG.Slices {
				r.list.ByID = true
				r.list.Devices = append(r.list.Devices, Device{s.UUID, g})
			}
		}
	}
}

func lost(what string, g *probe.GPU) error {
	return fmt.Errorf("%s does not answer: %s; look at dmesg for lines with Xid, then reset it (nvidia-smi --gpu-reset) or reboot, or leave it out with %s", what, g.Fault, Variable)
}

// listed takes what the variable names. Names of both kinds may be mixed.
func (r *reader) listed(value string) {
	entries := strings.Split(value, ",")
	if len(entries) > 1 && strings.TrimSpace(entries[len(entries)-1]) == "" {
		entries = entries[:len(entries)-1] // a comma at the end hides nothing
	}
	for i, e := range entries {
		e = strings.TrimSpace(e)
		// A negative number ends the list; that is how it is ended on purpose.
		if n, ok := number(e); ok && n < 0 {
			if i+1 < len(entries) {
				r.note("%s ends at %q, as for the driver: %s behind it are hidden", Variable, e, strings.Join(entries[i+1:], ","))
			}
			return
		}
		if err := r.take(i+1, e); err != nil {
			r.err = fmt.Errorf("%s=%q: %w", Variable, value, err)
			return
		}
	}
}

// take adds the device that one entry names.
func (r *reader) take(place int, e string) error {
	n, isNumber := number(e)
	switch {
	case e == "":
		return fmt.Errorf("entry %d is empty, and the driver would hide it and all behind it", place)
	case isNumber:
		for i := range r.machine.GPUs {
			if r.machine.GPUs[i].Index == n {
				return r.add(place, e, &r.machine.GPUs[i])
			}
		}
		return fmt.Errorf("entry %d, %q: there is no GPU %s (%s); the driver would hide it and all behind it", place, e, e, r.present())
	case strings.HasPrefix(e, "GPU-"):
		g, err := r.byUUID(place, e)
		if err != nil {
			return err
		}
		r.list.ByID = true
		return r.add(place, e, g)
	case strings.HasPrefix(e, "MIG-"):
		r.list.ByID = true
		return r.slice(place, e)
	}
	return fmt.Errorf("entry %d, %q: want a number, a UUID that begins with GPU-, or a MIG id that begins with MIG- (%s)", place, e, r.present())
}

// number reads what is nothing but a whole number. The driver would also take
// the digits that "0x1" or "1gpu" begin with.
func number(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && text[0] != '+'
}

// present lists what could be named.
func (r *reader) present() string {
	if len(r.machine.GPUs) == 0 {
		return "the driver knows no GPU"
	}
	var out []string
	for _, g := range r.machine.GPUs {
		out = append(out, fmt.Sprintf("%d is %s", g.Index, g.UUID))
	}
	return strings.Join(out, ", ")
}

// byUUID finds the GPU whose UUID begins with e.
func (r *reader) byUUID(place int, e string) (*probe.GPU, error) {
	var found []*probe.GPU
	for i := range r.machine.GPUs {
		if strings.HasPrefix(r.machine.GPUs[i].UUID, e) {
			found = append(found, &r.machine.GPUs[i])
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("entry %d, %q: no GPU has this UUID (%s)", place, e, r.present())
	}
	return nil, fmt.Errorf("entry %d, %q: %d GPUs have UUIDs that begin so (%s)", place, e, len(found), r.present())
}

func (r *reader) add(place int, e string, g *probe.GPU) error {
	if g.Fault != "" {
		return fmt.Errorf("entry %d: %w", place, lost(strconv.Quote(e), g))
	}
	if err := r.once(place, e, strconv.Itoa(g.Index)); err != nil {
		return err
	}
	if g.MIG != nil && g.MIG.Enabled {
		r.note("%s names GPU %d, which is in MIG mode: CUDA gives a process its first slice only", e, g.Index)
	}
	r.list.Devices = append(r.list.Devices, Device{e, g})
	return nil
}

// slice adds a MIG slice. Where the driver lists slices the id must be one of
// them; elsewhere (an older driver, a container) only CUDA can tell.
func (r *reader) slice(place int, e string) error {
	if err := r.once(place, e, e); err != nil {
		return err
	}
	var known []string
	for i := range r.machine.GPUs {
		g := &r.machine.GPUs[i]
		if g.MIG == nil {
			continue
		}
		for _, s := range g.MIG.Slices {
			known = append(known, s.UUID)
			if s.UUID == e {
				r.list.Devices = append(r.list.Devices, Device{e, g})
				return nil
			}
		}
	}
	// The form of older drivers is MIG-GPU-<uuid>/<instance>/<instance>.
	if len(known) > 0 && !strings.HasPrefix(e, "MIG-GPU-") {
		return fmt.Errorf("entry %d, %q: no MIG slice has this id (there are %s)", place, e, strings.Join(known, ", "))
	}
	r.note("%s is handed on as it is: the driver lists no MIG slices here to check it against", e)
	r.list.Devices = append(r.list.Devices, Device{Entry: e})
	return nil
}

// once refuses a device that is named a second time.
func (r *reader) once(place int, e, identity string) error {
	if first, taken := r.places[identity]; taken {
		return fmt.Errorf("entry %d, %q, names the device of entry %d again, for which the driver would hide all devices", place, e, first)
	}
	r.places[identity] = place
	return nil
}

func (r *reader) note(format string, args ...any) {
	r.list.Notes = append(r.list.Notes, fmt.Sprintf(format, args...))
}
