// Command xpwc runs models with XNNPACK and shows what a cache of packed weights does for them. It looks into cache files, checks and
// rewrites them.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // something went wrong, or results differ
	exitUsage  = 2 // the command line is wrong; of xpwc diff also: something went wrong
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteC()
	if err == nil {
		return exitOK
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

// usage makes the errors of an argument check usage errors.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "xpwc",
		Short:         "Run models with XNNPACK on a cache of packed weights, and look after cache files",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return usagef("no command given") },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newRunCommand(), newDemoCommand(), newBenchCommand(), newMeasureCommand())
	root.AddCommand(newPackCommand(), newPackIntoCommand())
	root.AddCommand(newInspectCommand(), newVerifyCommand(), newCompactCommand(), newPruneCommand(), newConvertCommand(), newDiffCommand())
	root.AddCommand(newPushCommand(), newPullCommand(), newLsCommand())
	root.AddCommand(newManCommand())
	return root
}
