package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"xpwc"
)

// explain returns the message of an error with what the system and libraries say in the words of who uses the tool:
// no system calls, no URLs of requests, no types.
func explain(err error) string {
	text := err.Error()
	var path *fs.PathError
	var link *os.LinkError
	var request *url.Error
	if errors.As(err, &path) {
		text = strings.ReplaceAll(text, path.Error(), explainPath(path))
	}
	if errors.As(err, &link) {
		text = strings.ReplaceAll(text, link.Error(), fmt.Sprintf("%s: %v", link.New, link.Err))
	}
	if errors.As(err, &request) {
		text = strings.ReplaceAll(text, request.Error(), explainRequest(request))
	}
	const layout = "this machine's layout"
	return strings.ReplaceAll(text, layout+": "+xpwc.ErrNoCgo.Error(),
		layout+" is not known: this xpwc was built without XNNPACK (make build makes one with it)")
}

func explainPath(err *fs.PathError) string {
	what := ""
	switch err.Op {
	case "mkdir":
		what = "cannot make the directory "
	case "make a file in":
		what = "cannot write to the directory "
	default:
		return fmt.Sprintf("%s: %v", err.Path, err.Err)
	}
	why := err.Err.Error()
	_, missing := os.Stat(err.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && err.Op != "mkdir" && missing != nil:
		why = "it is not there; create it first"
	case errors.Is(err, fs.ErrPermission):
		why += "; choose another one, or run xpwc as a user who may write there"
	case errors.Is(err, syscall.EROFS):
		why += "; choose another one"
	}
	if err.Path == "." {
		return strings.Replace(what, "the directory ", "the current directory", 1) + ": " + why
	}
	return what + err.Path + ": " + why
}

func explainRequest(err *url.Error) string {
	host := err.URL
	if u, parseErr := url.Parse(err.URL); parseErr == nil {
		host = u.Host
	}
	why := err.Err
	var unknown *net.DNSError
	var operation *net.OpError
	var call *os.SyscallError
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Sprintf("the registry %s does not use TLS: give --plain-http, if you trust the network", host)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return fmt.Sprintf("there is no host %s", unknown.Name)
	case errors.As(err, &call):
		why = call.Err
	case errors.As(err, &operation):
		why = operation.Err
	}
	if host != "" {
		host += " "
	}
	return fmt.Sprintf("the registry %scannot be reached: %v", host, why)
}

// explainFlag returns what is wrong with a flag of a command, or with its value.
func explainFlag(cmd *cobra.Command, err error) error {
	var of *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case !errors.As(err, &unknown):
	case !cmd.HasParent() && len(cmd.Flags().Args()) > 0: // it is the command that is not known
		return unknownCommand(cmd, cmd.Flags().Args()[:1])
	default:
		return fmt.Errorf("%w%s", err, meant("--", flagsLike(cmd, unknown.GetSpecifiedName())))
	}
	if !errors.As(err, &of) {
		return err
	}
	why := of.Unwrap()
	switch kind := of.GetFlag().Value.Type(); {
	case kind == "duration":
		why = errors.New("not a duration; write it like 30s or 5m")
	case kind == "bool":
		why = errors.New("not true or false")
	case errors.Is(err, strconv.ErrRange):
		why = errors.New("out of range")
	case errors.Is(err, strconv.ErrSyntax):
		why = errors.New("not a number")
	}
	return fmt.Errorf("--%s %s: %w", of.GetFlag().Name, of.GetValue(), why)
}

// flagsLike returns the names of a command's flags that are like one that it has not.
func flagsLike(cmd *cobra.Command, name string) []string {
	flags := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra compares names of commands
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return flags.SuggestionsFor(name)
}

// meant asks whether one of some names was meant; of none it is empty.
func meant(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}
