// Command xpwc runs models with XNNPACK on a cache of packed weights, and measures what the cache changes. It packs
// ahead of time. It shows, checks and rewrites cache files, and exchanges them with registries.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"xpwc/internal/fd"
	"xpwc/xnnpack"
)

func main() {
	reportBusErrors()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if err := fd.StartPoller(); err != nil { // else the runtime ends the process where it first needs it
		fmt.Fprintln(stderr, "xpwc:", explain(err))
		return exitFailed
	}
	root := newRootCommand()
	out := &results{Writer: stdout}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	ctx, j := newJob(stderr)
	// The hidden commands are processes that this program starts for itself: they end with it.
	command, _, err := root.Find(args)
	if err != nil || !command.Hidden {
		j.listen()
	}
	o := j.run(func() outcome {
		command, err := root.ExecuteContextC(ctx)
		return outcome{command, j.result, err}
	})
	o.command = cmp.Or(o.command, command)
	err = o.show(out, args, j)
	if err = cmp.Or(err, out.err); err != nil && o.err == nil {
		if o.err = err; o.command.Name() == "diff" {
			o.err = troubleError{err} // the files may be equal
		}
	}
	code, message := o.exit(j)
	if message != "" {
		fmt.Fprintf(stderr, "xpwc: %s\n", printableLines(message))
	}
	if code == exitUsage && !errors.As(o.err, new(troubleError)) {
		fmt.Fprintf(stderr, "See %s --help.\n", o.command.CommandPath())
	}
	return code
}

// show prints a command's result. With --json it prints the error too.
func (o outcome) show(out io.Writer, args []string, j *job) error {
	if !wantsJSON(o.command, args, o.err) {
		if o.result != nil {
			o.result.print(out)
		}
		return nil
	}
	if o.err == nil && o.result == nil {
		return nil
	}
	d := document{SchemaVersion: schemaVersion, Command: o.command.Name()}
	if code, message := o.exit(j); message != "" {
		d.Error = &failure{kindOf(o.err), message, code}
	}
	return d.print(out, o.result)
}

// exit returns the exit code and the error message, or "".
func (o outcome) exit(j *job) (code int, message string) {
	switch err := o.err; {
	case err == nil:
		return exitOK, ""
	case errors.Is(err, errInterrupted):
		return exitInterrupted, j.String()
	case errors.Is(err, errDifferent):
		return exitFailed, "" // the differences are printed
	case errors.As(err, new(troubleError)), errors.As(err, new(usageError)):
		return exitUsage, explain(err)
	default:
		return exitFailed, explain(err)
	}
}

// newRootCommand returns the tool as it was built.
func newRootCommand() *cobra.Command {
	root := newWholeCommand()
	if !xnnpack.Available {
		withoutXNNPACK(root)
	}
	return root
}

// newWholeCommand returns the tool that has XNNPACK.
func newWholeCommand() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "xpwc",
		Short:         "Run models with XNNPACK on a cache of packed weights, and look after cache files",
		SilenceErrors: true,
		SilenceUsage:  true,
		Long: `Runs models with XNNPACK on a cache of packed weights, packs ahead of time, and looks
after cache files.

Results go to standard output, progress and errors to standard error. With --json a
command prints one JSON document in place of text, also if it fails (xpwc schema).

Exits with
  0    if all went well
  1    if something went wrong, or a file is damaged
  2    if the command line is wrong
  130  if it was interrupted, by Ctrl-C, SIGTERM or SIGHUP

An interrupted command has written nothing and leaves no files, unless its message says
otherwise. A second interrupt, a second later, ends it at once.

Files are not written into a directory that others can change (one of another user but
root, or one that group or others can write to, without the sticky bit), unless
--allow-shared-directory is given.`,
		Example: `  xpwc pack pose.tflite -o pose.xpwc
  xpwc run pose.tflite --cache pose.xpwc
  xpwc inspect pose.xpwc`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[:1])
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return printVersion(cmd.OutOrStdout())
			}
			return usagef("no command given")
		},
	}
	root.Flags().BoolVarP(&version, "version", "v", false,
		"print the version, the commit, XNNPACK's build and this machine's layout")
	wrapHelp(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{explainFlag(cmd, err)} })
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run models and measure:", []*cobra.Command{newRunCommand(), newDemoCommand(), newBenchCommand(),
			newMeasureCommand()}},
		{"Pack ahead of time:", []*cobra.Command{newPackCommand(), newStripCommand(), newPlaceCommand(),
			newPackIntoCommand()}},
		{"Look after cache files:", []*cobra.Command{newInspectCommand(), newExplainCommand(), newReportCommand(),
			newWhoCommand(), newVerifyCommand(), newCompactCommand(), newPruneCommand(), newConvertCommand(),
			newDiffCommand()}},
		{"Distribute them through an OCI registry:", []*cobra.Command{newPushCommand(), newPullCommand(),
			newLsCommand()}},
		{"More:", []*cobra.Command{newLayoutCommand(), newSchemaCommand(), newManCommand(newWholeCommand)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("More:")
	root.SetCompletionCommandGroupID("More:")
	root.SuggestionsMinimumDistance = 2 // which cobra sets only for errors of its own
	refuseUnknownTopics(root)
	return root
}

// refuseUnknownTopics makes help and completion fail for what they do not know: cobra's own exit with 0.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return unknownCommand(cmd, args[:1])
				}
				return cmd.Help()
			}
		case "help":
			show := c.Run
			c.Run, c.RunE = nil, func(cmd *cobra.Command, args []string) error {
				if command, _, err := root.Find(args); err != nil || command == root && len(args) > 0 {
					return unknownCommand(root, args[:1])
				}
				show(cmd, args)
				return nil
			}
		}
	}
}

// withoutXNNPACK marks the commands of root that need XNNPACK in their help, and makes them fail with
// errWithoutXNNPACK.
func withoutXNNPACK(root *cobra.Command) {
	root.Long += `

This xpwc was built without XNNPACK. It looks after files and registries. It does not pack
or run models, and this machine's layout is not known to it: pull takes the one that was
packed on a processor such as this one, and says so; where there are several, --layout
names one.`
	without := func(needed string) error { return fmt.Errorf("%s: %w", needed, errWithoutXNNPACK) }
	for _, c := range root.Commands() {
		c.PreRunE = func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"model", "for"} {
				f := c.Flags().Lookup(name)
				// A pull for LiteRT writes what the registry has.
				asItIs := name == "for" && f != nil && f.Value.String() == forLiteRT
				if f != nil && f.Changed && !asItIs {
					return without(c.CommandPath() + " --" + name)
				}
			}
			return nil
		}
		switch c.Name() {
		case "run", "explain", "demo", "bench", "measure", "pack", "pack-into", "strip", "layout":
			c.Short += " (not in this build)"
			c.Long = "Not in this build, which has no XNNPACK.\n\n" + c.Long
			c.PreRunE = func(c *cobra.Command, _ []string) error {
				return without(c.CommandPath())
			}
		}
	}
}
