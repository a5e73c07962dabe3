package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // something went wrong, or results differ
	exitUsage  = 2 // the command line is wrong; of xpwc diff: or something went wrong
	// exitInterrupted is what shells give a program that Ctrl-C has ended.
	exitInterrupted = 128 + int(syscall.SIGINT)
)

// errInterrupted: the user, or the system, wants the program to end.
var errInterrupted = errors.New("interrupted")

// errDifferent: the files differ, and the differences are printed. Other errors have another exit code, as with diff
// and cmp.
var errDifferent = errors.New("the files differ")

// A troubleError is an error of xpwc diff that is not a difference.
type troubleError struct{ error }

func (e troubleError) Unwrap() error { return e.error }

// errUnproven: a file differs from the weights that the model is packed into here.
var errUnproven = errors.New("it does not have what the model is packed into")

// errNoLayout is matched by errors for a name that does not select one layout.
var errNoLayout = errors.New("no such layout")

type layoutError struct{ error }

func (layoutError) Is(target error) bool { return target == errNoLayout }

// errStockCrashes: no file of packed weights makes the stock runtime run a program.
var errStockCrashes = errors.New("the stock runtime crashes with any file of packed weights")

// errShared: others can change the directory that a file is to be in.
var errShared = errors.New("others could put another file there; correct its owner and mode, choose another " +
	"directory, or give --allow-shared-directory")

// errWithoutXNNPACK is matched by the errors of commands that a program without XNNPACK does not have.
var errWithoutXNNPACK = errors.New("this xpwc was built without XNNPACK, and only looks after files and registries; " +
	"install one with it: the package of Debian, the wheel or the tarball")

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
