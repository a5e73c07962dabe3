package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/cmd/xpwc/internal/mappings"
	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
)

func newWhoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "who FILE",
		Short: "Show the processes that have a cache file mapped, and what they share",
		Long: `Shows the processes that have a cache file mapped, with what each has of it in memory.
The last line says whether its memory is shared. On Linux only. Nothing is locked or
changed, and no page is read in.

  resident  pages of the file that the process has in memory
  share     its part of these: each page divided by the number of its mappings
  private   pages that have no other mapping
  dirty     private pages that are yet to be written to the file

Private pages are pages of the page cache, too, unless they are said to be copies: a
second process that maps the file shares them.

A process keeps what it has mapped when the file is replaced or deleted, until it opens
the path anew: it is shown as one that has an earlier file. Its generation, what one commit
left in the file, is shown where the mapping says it, of a replaced file to root only.

Processes of other users cannot be looked into; they are counted. As root you see all of
your PID namespace: see a container's from its host.`,
		Example: `  xpwc who model.xpwc
  sudo xpwc who model.xpwc
  xpwc who model.xpwc --json | jq '.processes[] | select(.current | not) | .pid'`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := findUsers(args[0])
			if err != nil {
				return err
			}
			setResult(cmd.Context(), r)
			return nil
		},
	}
	jsonFlag(cmd)
	return cmd
}

// usersReport is the result of xpwc who.
type usersReport struct {
	File       string       `json:"file"`
	Path       string       `json:"path"` // where it leads
	Present    bool         `json:"present"`
	FileBytes  int64        `json:"file_bytes"`
	Generation uint64       `json:"generation,omitempty"`
	Models     []string     `json:"models,omitempty"` // names of what it was packed from
	Processes  []userReport `json:"processes"`
	Hidden     int          `json:"hidden_process_count"` // that this user may not look into
	Shared     bool         `json:"shared"`
	Answer     string       `json:"answer"`
}

// userReport is a process that has a file of the path mapped.
type userReport struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	User    string `json:"user"`
	UID     uint32 `json:"uid"`
	// Current: the file that is at the path now.
	Current bool   `json:"current"`
	Device  string `json:"device"`
	Inode   uint64 `json:"inode"`
	// Generation that it uses, or one that was before it; 0 where nothing is known.
	Generation uint64 `json:"generation,omitempty"`
	Before     uint64 `json:"before_generation,omitempty"`

	mappings.Memory
}

func findUsers(file string) (*usersReport, error) {
	found, err := mappings.Of(file)
	if err != nil {
		return nil, err
	}
	if found.Info == nil && len(found.Users) == 0 {
		_, err := os.Stat(file)
		return nil, err
	}
	r := &usersReport{File: file, Path: found.Path, Hidden: found.Hidden, Processes: []userReport{}}
	var now cachefile.Info
	if r.Present = found.Info != nil; r.Present {
		r.FileBytes = found.Info.Size()
		now = infoOf(found.Path) // after the mappings, which are of generations that it has
		r.Generation, r.Models = now.Generation, modelNames(now.Models)
	}
	for _, u := range found.Users {
		p := reportUser(&u)
		info := now
		if !u.Now {
			info = infoOf(u.Spans[0].Name)
		}
		p.Generation, p.Before = generationMapped(&info, u.Spans)
		r.Processes = append(r.Processes, p)
	}
	slices.SortStableFunc(r.Processes, func(a, b userReport) int {
		return cmp.Or(cmp.Compare(standing(&a), standing(&b)), cmp.Compare(a.Inode, b.Inode),
			-cmp.Compare(a.Generation, b.Generation), -cmp.Compare(a.Before, b.Before))
	})
	r.Shared, r.Answer = r.answer()
	return r, nil
}

// standing is 0 for the file that is at the path.
func standing(p *userReport) int {
	if p.Current {
		return 0
	}
	return 1
}

func reportUser(u *mappings.User) userReport {
	name := strconv.FormatUint(uint64(u.UID), 10)
	if known, err := user.LookupId(name); err == nil {
		name = known.Username
	}
	return userReport{
		PID: u.PID, Command: u.Command, User: name, UID: u.UID,
		Current: u.Now, Device: u.File.Device, Inode: u.File.Inode, Memory: u.Memory,
	}
}

// infoOf describes a cache file; zero if it is none, or cannot be read.
func infoOf(path string) cachefile.Info {
	f, err := cachefile.Open(path)
	if err != nil {
		return cachefile.Info{}
	}
	defer f.Close()
	info, _ := f.Info() // what is damaged does not matter here
	return info
}

// generationMapped returns the newest generation of a file that a process has mapped, if it is known: its mapping from
// the file's beginning ends in the page where the generation ends, and no generation before it ends there. If the
// mapping ends before those that the file's header knows, a generation that came after it is returned.
func generationMapped(info *cachefile.Info, spans []mappings.Span) (generation, before uint64) {
	page := int64(os.Getpagesize())
	pages := func(end int64) int64 { return (end + page - 1) / page * page }
	for _, span := range spans {
		if span.Offset != 0 {
			continue
		}
		for _, slot := range info.Slots {
			if slot.State != cachefile.SlotInForce && slot.State != cachefile.SlotOlder || slot.Generation == 0 {
				continue
			}
			switch last := endBefore(info, slot); {
			case span.Size == pages(slot.End) && span.Size > pages(last):
				generation = max(generation, slot.Generation)
			case span.Size < pages(slot.End) && (before == 0 || slot.Generation < before):
				before = slot.Generation
			}
		}
	}
	if generation != 0 {
		before = 0
	}
	return generation, before
}

// endBefore returns where the generation before a slot's ends at the latest.
func endBefore(info *cachefile.Info, slot cachefile.Slot) int64 {
	if slot.Generation == 1 {
		return 0
	}
	for _, other := range info.Slots {
		if other.State == cachefile.SlotOlder && other.Generation == slot.Generation-1 {
			return other.End
		}
	}
	return slot.IndexAt
}

// answer says whether memory is shared.
func (r *usersReport) answer() (shared bool, sentence string) {
	var now, old []userReport
	var sum mappings.Memory
	var kept, copied int64
	for _, p := range r.Processes {
		copied += p.Copied
		if !p.Current {
			old = append(old, p)
			kept += p.Share
			continue
		}
		now = append(now, p)
		sum.Add(&p.Memory)
	}
	processes := console.Plural(len(now), "process") + " have"
	switch {
	case len(now) == 0 && !r.Present:
		sentence = "Nothing is at the path"
	case len(now) == 0:
		sentence = "Not shared: no process has the file mapped"
	case len(now) == 1:
		p := now[0]
		sentence = fmt.Sprintf("Not shared: only %s has the file mapped; another process would share its pages",
			p.title())
	case sum.Shared() == 0:
		sentence = fmt.Sprintf("Not shared: %s the file mapped, and none a page in memory that another one has",
			processes)
	default:
		shared = true
		sentence = fmt.Sprintf("Shared: %s %s of the file in memory, which take %s", processes,
			console.Size(sum.Resident), console.Size(sum.Share))
	}
	if len(old) > 0 {
		sentence += fmt.Sprintf("; %s still %s an earlier file, which takes %s more",
			console.Plural(len(old), "process"), oneOrMany(len(old), "has", "have"), console.Size(kept))
	}
	if copied > 0 {
		sentence += fmt.Sprintf("; %s are copies, which nobody shares", console.Size(copied))
	}
	if r.Hidden > 0 {
		sentence += ", as far as you may see"
	}
	return shared, sentence + "."
}

// title names a process.
func (p *userReport) title() string { return fmt.Sprintf("%d %s", p.PID, console.Printable(p.Command)) }

// group says what a process uses.
func (p *userReport) group() string {
	var said []string
	if p.Current {
		said = append(said, "the file at the path")
	} else {
		said = append(said, fmt.Sprintf("an earlier file, replaced or deleted (inode %d)", p.Inode))
	}
	switch {
	case p.Generation > 0:
		said = append(said, fmt.Sprintf("generation %d", p.Generation))
	case p.Before > 0:
		said = append(said, fmt.Sprintf("a generation before %d", p.Before))
	}
	return strings.Join(said, ", ")
}

func (r *usersReport) print(w io.Writer) {
	said := []string{console.Printable(r.File) + ": " + console.Size(r.FileBytes)}
	if !r.Present {
		said = []string{console.Printable(r.File) + ": nothing is there now"}
	}
	if r.Generation > 0 {
		said = append(said, fmt.Sprintf("generation %d", r.Generation))
	}
	fmt.Fprintln(w, strings.Join(said, ", "))
	if len(r.Models) > 0 {
		fmt.Fprintln(w, fold("packed from "+strings.Join(r.Models, ", "), textWidth(w)))
	}
	if len(r.Processes) > 0 {
		fmt.Fprintln(w)
		r.printProcesses(w)
	}
	fmt.Fprintln(w)
	if r.Hidden > 0 {
		fmt.Fprintf(w, "note: you may not look into %s%s\n", console.Plural(r.Hidden, "other process"), asRoot())
	}
	fmt.Fprintln(w, fold(r.Answer, textWidth(w)))
}

// asRoot says who sees more, if somebody does.
func asRoot() string {
	if os.Geteuid() == 0 {
		return ""
	}
	return "; as root you see all"
}

// printProcesses writes one table of all processes, with a line before those that use the same.
func (r *usersReport) printProcesses(w io.Writer) {
	const longName = 8
	var t console.Table
	t.Row("process", "user", "resident", "share", "private", "dirty")
	for _, p := range r.Processes {
		t.Row(p.title(), console.Shorten(console.Printable(p.User), longName), console.Size(p.Resident),
			console.Size(p.Share), console.Size(p.PrivateClean+p.PrivateDirty), console.Size(p.PrivateDirty))
	}
	t.Fit(cmp.Or(terminal.Width(w), unknownWidth))
	var table bytes.Buffer
	t.Print(&table)
	rows := slices.Collect(bytes.Lines(table.Bytes()))
	fmt.Fprintf(w, "%s", rows[0])
	group := ""
	for i, p := range r.Processes {
		if g := p.group(); g != group {
			group = g
			fmt.Fprintln(w, g)
		}
		fmt.Fprintf(w, "%s", rows[i+1])
	}
}
