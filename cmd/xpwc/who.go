package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/user"
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
		Short: "Show the processes that have a cache file mapped",
		Long: `Shows the processes that have a cache file mapped, with what each has of it in memory.
The last line says whether its memory is shared. On Linux only. Nothing is locked or
changed, and no page is read in.

  generation  what one commit left in the file, where the mapping says it
  resident    pages of the file that the process has in memory
  share       its part of these: each page divided by the number of its mappings
  private     pages that have no other mapping

Private pages are pages of the page cache, too: a second process that maps the file shares
them.

A process keeps what it has mapped when the file is replaced or deleted, until it opens
the path anew: then "earlier" stands beside the generation, which root alone is shown.

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
	Models     []string     `json:"models,omitempty"` // names of the models it was packed from
	Processes  []userReport `json:"processes"`
	Hidden     int          `json:"hidden_process_count"` // that this user may not look into
	Shared     bool         `json:"shared"`
	Answer     string       `json:"answer"`
}

// userReport is a process that has a file of the path mapped.
type userReport struct {
	mappings.User
	Name       string `json:"user"`
	Generation uint64 `json:"generation,omitempty"` // that it uses; 0 where it is not known
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
		info := now
		if !u.Now {
			info = infoOf(u.Link)
		}
		name := strconv.FormatUint(uint64(u.UID), 10)
		if known, err := user.LookupId(name); err == nil {
			name = known.Username
		}
		r.Processes = append(r.Processes, userReport{u, name, generationMapped(&info, u.Beginning)})
	}
	r.Shared, r.Answer = r.answer()
	return r, nil
}

// infoOf describes a cache file; zero if it is none, or cannot be read.
func infoOf(path string) cachefile.Info {
	f, err := cachefile.Open(path)
	if err != nil {
		return cachefile.Info{}
	}
	defer f.Close()
	info, _ := f.Info() // damage does not matter here
	return info
}

// generationMapped returns the newest generation that a process has mapped, 0 if it is unknown: the mapping from the
// file's beginning ends in the page where the generation ends, and no earlier generation ends there.
func generationMapped(info *cachefile.Info, mapped int64) (generation uint64) {
	page := int64(os.Getpagesize())
	pages := func(end int64) int64 { return (end + page - 1) / page * page }
	for _, slot := range info.Slots {
		committed := slot.State == cachefile.SlotInForce || slot.State == cachefile.SlotOlder
		if committed && mapped == pages(slot.End) && mapped > pages(endBefore(info, slot)) {
			generation = max(generation, slot.Generation)
		}
	}
	return generation
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

// answer is the sentence whether memory is shared.
func (r *usersReport) answer() (shared bool, sentence string) {
	var now, old mappings.Memory
	earlier := 0 // processes
	only := ""
	for _, p := range r.Processes {
		if !p.Now {
			earlier++
			old.Add(&p.Memory)
			continue
		}
		only = p.title()
		now.Add(&p.Memory)
	}
	n := len(r.Processes) - earlier
	processes := console.Plural(n, "process") + " have"
	switch {
	case n == 0 && !r.Present:
		sentence = "Nothing is at the path"
	case n == 0:
		sentence = "Not shared: no process has the file mapped"
	case n == 1:
		sentence = fmt.Sprintf("Not shared: only %s has the file mapped; another process would share its pages", only)
	case now.Shared == 0:
		sentence = fmt.Sprintf("Not shared: %s the file mapped, and none a page in memory that another one has",
			processes)
	default:
		shared = true
		sentence = fmt.Sprintf("Shared: %s %s of the file in memory, which take %s", processes,
			console.Size(now.Resident), console.Size(now.Share))
	}
	if earlier > 0 {
		sentence += fmt.Sprintf("; %s still %s an earlier file, which takes %s more",
			console.Plural(earlier, "process"), oneOrMany(earlier, "has", "have"), console.Size(old.Share))
	}
	if r.Hidden > 0 {
		sentence += ", as far as you may see"
	}
	return shared, sentence + "."
}

// title names a process.
func (p *userReport) title() string { return fmt.Sprintf("%d %s", p.PID, console.Printable(p.Command)) }

// generation describes the file and generation that a process uses.
func (p *userReport) generation() string {
	of := console.None
	if p.Generation > 0 {
		of = fmt.Sprint(p.Generation)
	}
	if !p.Now {
		of += " (earlier)"
	}
	return of
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
		fmt.Fprintf(w, "note: you may not look into %s\n", console.Plural(r.Hidden, "other process"))
	}
	fmt.Fprintln(w, fold(r.Answer, textWidth(w)))
}

func (r *usersReport) printProcesses(w io.Writer) {
	const longName = 8
	var t console.Table
	t.Row("process", "user", "generation", "resident", "share", "private")
	for _, p := range r.Processes {
		t.Row(p.title(), console.Shorten(console.Printable(p.Name), longName), p.generation(),
			console.Size(p.Resident), console.Size(p.Share), console.Size(p.Private))
	}
	t.Fit(cmp.Or(terminal.Width(w), unknownWidth))
	t.Print(w)
}
