// Command xpwc runs models with XNNPACK on a cache of packed weights, and measures what the cache changes. It packs
// ahead of time. It shows, checks and rewrites cache files, and exchanges them with registries.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"xpwc/internal/console"
	"xpwc/internal/fd"
	"xpwc/xnnpack"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // something went wrong, or results differ
	exitUsage  = 2 // the command line is wrong; of xpwc diff: or something went wrong
	// exitInterrupted is what shells give a program that Ctrl-C has ended.
	exitInterrupted = 128 + int(syscall.SIGINT)
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

// printableLines replaces control characters: names in a message come from files and registries.
func printableLines(message string) string {
	lines := strings.Split(message, "\n")
	for i, line := range lines {
		lines[i] = console.Printable(strings.ReplaceAll(line, "\t", " "))
	}
	return strings.Join(lines, "\n")
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

// usageError is a wrong command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// usage makes the errors of an argument check usage errors, which show the arguments of the command.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			line := strings.TrimSuffix(cmd.UseLine(), " [flags]")
			if len(args) == 0 {
				return usagef("arguments are missing; usage: %s", line)
			}
			return usagef("%s %s: wrong number of arguments; usage: %s", cmd.CommandPath(), strings.Join(args, " "),
				line)
		}
		return nil
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
		{"More:", []*cobra.Command{newLayoutCommand(), newSchemaCommand(), newManCommand()}},
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
	root.InitDefaultCompletionCmd()
	return root
}
