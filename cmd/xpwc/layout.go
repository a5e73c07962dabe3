package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/internal/cpu"
	"xpwc/xnnpack"
)

func newLayoutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "layout",
		Short: "Print this machine's layout",
		Long: `Prints the fingerprint of the layout that this machine's CPU and this tool's XNNPACK have:
what packed weights must be packed for to be used here. It differs whenever packing does.
--json adds what it was found with.`,
		Example: `  xpwc layout
  xpwc pull registry.example/models/pose:v3 -o pose.xpwc --layout $(xpwc layout)`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			jobOf(cmd.Context()).waitFor("") // it is quick
			here, err := xpwc.CurrentLayout()
			if err != nil {
				return err
			}
			setResult(cmd.Context(), machineLayout{here.Fingerprint.String(), here.Description,
				xnnpack.BuildIdentifier()})
			return nil
		},
	}
	jsonFlag(cmd)
	return cmd
}

// machineLayout is the result of xpwc layout.
type machineLayout struct {
	Layout      string `json:"layout"`
	Description string `json:"description"`
	XNNPACK     string `json:"xnnpack_build_identifier,omitempty"`
}

func (l machineLayout) print(w io.Writer) { fmt.Fprintln(w, l.Layout) }

// printVersion prints what this tool is and what it packs for. XNNPACK has no version but its build identifier.
func printVersion(w io.Writer) error {
	commit := ""
	if c := xpwc.Commit(); c != "" {
		commit = ", commit " + c
	}
	fmt.Fprintf(w, "xpwc version %s%s\n", xpwc.Version, commit)
	here, err := xpwc.CurrentLayout()
	if err != nil {
		_, err = fmt.Fprintf(w, "processor %s\n%s\n", cpu.Name(), explain(err))
		return err
	}
	if id := xnnpack.BuildIdentifier(); id != "" {
		fmt.Fprintf(w, "XNNPACK build %s\n", id)
	}
	_, err = fmt.Fprintf(w, "layout %s\npacks for %s\n", here.Fingerprint, here.Description)
	return err
}
