// Command xpwc runs models with XNNPACK and shows what a cache of packed weights does for them. It looks into cache files, checks and
// rewrites them.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"xpwc"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // something went wrong, or results differ
	exitUsage  = 2 // the command line is wrong; of xpwc diff also: something went wrong
	// exitInterrupted is what shells give a program that Ctrl-C has ended.
	exitInterrupted = 128 + int(syscall.SIGINT)
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ctx, j := newJob()
	if command, _, err := root.Find(args); err != nil || !command.Hidden { // processes that this one starts for itself end with it
		j.listen()
	}
	o := j.run(func() outcome {
		command, err := root.ExecuteContextC(ctx)
		return outcome{command, err}
	})
	command, err := o.command, o.err
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errInterrupted) {
		fmt.Fprintf(stderr, "xpwc: %v\n", j)
		return exitInterrupted
	}
	if errors.Is(err, errDifferent) {
		return exitFailed // and was told
	}
	fmt.Fprintf(stderr, "xpwc: %v\n", err)
	if errors.As(err, new(troubleError)) {
		return exitUsage
	}
	if errors.As(err, new(usageError)) {
		fmt.Fprintf(stderr, "%s --help tells more.\n", command.CommandPath())
		return exitUsage
	}
	return exitFailed
}

// usageError is a wrong command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// usage makes the errors of an argument check usage errors, which show what the command takes.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			takes := strings.TrimSuffix(cmd.UseLine(), " [flags]")
			if len(args) == 0 {
				return usagef("arguments are missing: %s", takes)
			}
			return usagef("%s %s: these are not the arguments that it takes: %s", cmd.CommandPath(), strings.Join(args, " "), takes)
		}
		return nil
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "xpwc",
		Version:       xpwc.Version,
		Short:         "Run models with XNNPACK on a cache of packed weights, and look after cache files",
		SilenceErrors: true,
		SilenceUsage:  true,
		Long: `Runs models with XNNPACK on a cache of packed weights, packs ahead of time, and looks after cache files.

Results go to standard output, progress and errors to standard error. Commands with --json print one JSON document in place of text.

Exits with 0 if all went well, with 1 if something went wrong or is damaged, with 2 if the command line is wrong, and with 130 if it was
interrupted, by Ctrl-C, SIGTERM or SIGHUP: then nothing was written and nothing is left, unless it says otherwise. A second interrupt
ends it at once. xpwc diff exits as diff does: with 1 if there are differences, with 2 if something went wrong.`,
		Example: `  xpwc pack pose.tflite -o pose.xpwc
  xpwc run pose.tflite --cache pose.xpwc
  xpwc inspect pose.xpwc`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			meant := ""
			if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
				meant = "; is " + strings.Join(names, " or ") + " meant?"
			}
			return usagef("unknown command %q%s", args[0], meant)
		},
		RunE: func(*cobra.Command, []string) error { return usagef("no command given") },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run models and measure:", []*cobra.Command{newRunCommand(), newDemoCommand(), newBenchCommand(), newMeasureCommand()}},
		{"Pack ahead of time:", []*cobra.Command{newPackCommand(), newPackIntoCommand()}},
		{"Look after cache files:", []*cobra.Command{newInspectCommand(), newVerifyCommand(), newCompactCommand(), newPruneCommand(),
			newConvertCommand(), newDiffCommand()}},
		{"Distribute them through an OCI registry:", []*cobra.Command{newPushCommand(), newPullCommand(), newLsCommand()}},
		{"More:", []*cobra.Command{newManCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("More:")
	root.SetCompletionCommandGroupID("More:")
	root.SuggestionsMinimumDistance = 2 // cobra sets it on the way to an error of its own only
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = usage(cobra.NoArgs), func(*cobra.Command, []string) error { return usagef("which shell? bash, zsh, fish or powershell") }
			c.Example = "  source <(xpwc completion bash)"
		}
	}
	return root
}
