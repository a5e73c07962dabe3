package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"xpwc"
	"xpwc/internal/console"
	"xpwc/internal/fd"
	"xpwc/models/bundle"
	"xpwc/models/described"
	"xpwc/models/executorch"
	"xpwc/models/litert"
	"xpwc/models/npy"
	"xpwc/models/safetensors"
	"xpwc/models/tflite"
	"xpwc/registry"
)

// schemaVersion is the version of --json's output, which output.schema.json and docs/json.md describe. It changes when
// a member is removed or changes its meaning.
const schemaVersion = 1

//go:embed output.schema.json
var outputSchema string

func newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of what --json prints",
		Long: `Prints the JSON Schema (draft 2020-12) of what all commands print with --json, and of
their errors. schema_version, which is in each document, changes when a member is removed
or means something else. Members are added without that: ignore those that you do not
know.`,
		Example: "  xpwc schema >xpwc.schema.json",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), outputSchema)
			return err
		},
	}
}

// jsonFlag is the flag of a command that has a result.
func jsonFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("json", false, "print JSON in place of text (see xpwc schema)")
}

// setResult makes r the result of a command. It is printed when the command has returned, with --json together with the
// command's error.
func setResult(ctx context.Context, r result) { jobOf(ctx).result = r }

// A printedResult is one whose text the command prints while it goes on, to textOutput.
type printedResult struct{ members any }

func (printedResult) print(io.Writer) {}

// MarshalJSON returns the members.
func (r printedResult) MarshalJSON() ([]byte, error) { return json.Marshal(r.members) }

// textOutput is standard output, or nothing with --json.
func textOutput(cmd *cobra.Command) io.Writer {
	if asJSON, err := cmd.Flags().GetBool("json"); err == nil && asJSON {
		return io.Discard
	}
	return cmd.OutOrStdout()
}

// A document begins the output of a command with --json. The members of its result follow.
type document struct {
	SchemaVersion int      `json:"schema_version"`
	Command       string   `json:"command"`
	Error         *failure `json:"error,omitempty"`
}

// A failure is an error.
type failure struct {
	Kind     errorKind `json:"kind"`
	Message  string    `json:"message"`
	ExitCode int       `json:"exit_code"`
}

// Error is the message: a failure that another process of this program reports is an error here.
func (f *failure) Error() string { return f.Message }

// print prints the document with the members of a result, which may be nil.
func (d document) print(w io.Writer, result result) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if result != nil {
		members, err := json.Marshal(result)
		if err != nil {
			return err
		}
		b = append(append(b[:len(b)-1], ','), members[1:]...)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = w.Write(escapeJSON(out.Bytes()))
	return err
}

// wantsJSON reports whether a command line asks for JSON, also one that is wrong elsewhere: then the flags after what
// is wrong were not read.
func wantsJSON(cmd *cobra.Command, args []string, err error) bool {
	f := cmd.Flags().Lookup("json")
	if f == nil && cmd.HasParent() {
		return false
	}
	if f != nil && (f.Changed || cmd.Flags().Parsed() && !errors.As(err, new(usageError))) {
		return f.Value.String() == "true"
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	asked := flags.Bool("json", false, "")
	_ = flags.Parse(args)
	return *asked
}

// An errorKind classifies an error for programs. docs/json.md explains the kinds.
type errorKind string

const (
	kindUsage       errorKind = "usage"
	kindInterrupted errorKind = "interrupted"
	kindNotFound    errorKind = "not_found"
	kindPermission  errorKind = "permission"
	kindReadOnly    errorKind = "read_only"
	kindNoSpace     errorKind = "no_space"
	kindBusy        errorKind = "busy"
	kindUnsafe      errorKind = "unsafe_file"
	kindNotCache    errorKind = "not_cache"
	kindForeign     errorKind = "foreign"
	kindVersion     errorKind = "version"
	kindDamaged     errorKind = "damaged"
	kindChanged     errorKind = "source_changed"
	kindUnproven    errorKind = "unproven"
	kindNoLayout    errorKind = "no_layout"
	kindMalformed   errorKind = "malformed"
	kindUnsupported errorKind = "unsupported"
	kindNoXNNPACK   errorKind = "without_xnnpack"
	kindConnection  errorKind = "connection"
	kindFailed      errorKind = "failed" // all others
)

// errorKinds are the kinds of errors that match one of several. The first that fits is taken.
var errorKinds = []struct {
	kind      errorKind
	sentinels []error
}{
	{kindInterrupted, []error{errInterrupted}},
	{kindNoXNNPACK, []error{errWithoutXNNPACK, xpwc.ErrNoCgo}},
	{kindChanged, []error{xpwc.ErrSourceChanged}},
	{kindUnproven, []error{errUnproven}},
	{kindNoLayout, []error{errNoLayout, registry.ErrNoLayout}},
	{kindNoSpace, []error{syscall.ENOSPC, syscall.EDQUOT, registry.ErrTooLarge}},
	{kindReadOnly, []error{syscall.EROFS, xpwc.ErrReadOnly}},
	{kindUnsafe, []error{xpwc.ErrUnsafeFile, errShared}},
	{kindNotFound, []error{fs.ErrNotExist, registry.ErrNotFound, bundle.ErrUnknownSection}},
	{kindPermission, []error{fs.ErrPermission, registry.ErrUnauthorized}},
	{kindBusy, []error{xpwc.ErrBusy, registry.ErrConcurrent}},
	{kindForeign, []error{xpwc.ErrForeign}},
	{kindVersion, []error{xpwc.ErrVersion, litert.ErrVersion, bundle.ErrVersion}},
	{kindDamaged, []error{xpwc.ErrDamaged, litert.ErrDamaged}},
	{kindNotCache, []error{xpwc.ErrNotCache, litert.ErrNotCache, registry.ErrOtherArtifact}},
	{kindMalformed, []error{tflite.ErrMalformed, executorch.ErrMalformed, safetensors.ErrMalformed, npy.ErrMalformed,
		described.ErrInvalid, bundle.ErrMalformed, bundle.ErrNotBundle}},
	{kindUnsupported, []error{errors.ErrUnsupported, errStockCrashes, tflite.ErrUnsupported, tflite.ErrUnsupportedOp,
		executorch.ErrUnsupported, executorch.ErrUnsupportedOp, executorch.ErrSkeleton, executorch.ErrNoSkeleton,
		tflite.ErrSkeleton, tflite.ErrNoSkeleton, npy.ErrUnsupported}},
}

func kindOf(err error) errorKind {
	if errors.As(err, new(usageError)) {
		return kindUsage
	}
	if failed := (*failure)(nil); errors.As(err, &failed) {
		return failed.Kind
	}
	for _, k := range errorKinds {
		if slices.ContainsFunc(k.sentinels, func(sentinel error) bool { return errors.Is(err, sentinel) }) {
			return k.kind
		}
	}
	if errors.Is(err, registry.ErrSilent) || errors.As(err, new(*net.OpError)) || errors.As(err, new(*net.DNSError)) {
		return kindConnection
	}
	return kindFailed
}

// results is standard output, and the first error of writing to it: a script that goes by the exit code must learn
// that a result was not printed. Characters that could control a terminal are replaced; paths, and names in files, can
// have them.
type results struct {
	io.Writer
	err error
}

func (r *results) Write(b []byte) (int, error) {
	_, err := r.Writer.Write(printable(b))
	if r.err == nil {
		r.err = err
	}
	return len(b), err
}

// printable replaces the characters that could control a terminal or reorder its text. Those that lay out text stay.
func printable(b []byte) []byte {
	if bytes.IndexFunc(b, unprintable) < 0 {
		return b
	}
	return bytes.Map(func(c rune) rune {
		if unprintable(c) {
			return '?'
		}
		return c
	}, b)
}

func unprintable(c rune) bool { return !unicode.IsPrint(c) && !strings.ContainsRune("\n\t\r", c) }

// escapeJSON writes the characters of JSON that printable replaces as escape sequences.
func escapeJSON(b []byte) []byte {
	var out bytes.Buffer
	for _, c := range string(b) {
		if !unprintable(c) {
			out.WriteRune(c)
			continue
		}
		for _, unit := range utf16.Encode([]rune{c}) {
			fmt.Fprintf(&out, "\\u%04x", unit)
		}
	}
	return out.Bytes()
}

// Fd is that of the file, by which a terminal is known, or no file's.
func (r *results) Fd() uintptr {
	if f, ok := r.Writer.(*os.File); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// explain returns the message of an error in a user's words: without system calls, URLs of requests, and types.
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
	return commandWords.Replace(text)
}

// commandWords replaces advice for Go programs by advice for the command line.
var commandWords = strings.NewReplacer(
	"set Options.AllowUnsafeFile", "give another path",
	"this machine's layout: "+xpwc.ErrNoCgo.Error(),
	"this machine's layout is not known: this xpwc was built without XNNPACK",
)

func explainPath(err *fs.PathError) string {
	subject := ""
	switch err.Op {
	case "mkdir":
		subject = "cannot make the directory "
	case "make a file in":
		subject = "cannot write to the directory "
	default:
		return fmt.Sprintf("%s: %v", err.Path, err.Err) + adviceFor(err)
	}
	reason := err.Err.Error()
	_, missing := os.Stat(err.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && err.Op != "mkdir" && missing != nil:
		reason = "it is not there; create it first"
	case errors.Is(err, fs.ErrPermission):
		reason += "; choose another one, or run xpwc as a user who may write there"
	case errors.Is(err, syscall.EROFS):
		reason += "; choose another one"
	}
	if err.Path == "." {
		return strings.Replace(subject, "the directory ", "the current directory", 1) + ": " + reason
	}
	return subject + err.Path + ": " + reason
}

// adviceFor returns what to do about paths that are none of the user's files.
func adviceFor(err *fs.PathError) string {
	switch {
	case err.Path == "/proc/self/exe":
		return "; mount /proc, by which xpwc finds its program"
	case err.Path == "-" && errors.Is(err, fs.ErrNotExist):
		return "; standard input is not read: give the path of a file"
	case errors.Is(err, fd.ErrNotRegular):
		return adviceForIrregular(err.Path)
	}
	return ""
}

// adviceForIrregular returns what to do about a path to which no file leads that can be mapped.
func adviceForIrregular(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "; it is a directory: give the path of a file in it"
	}
	return "; write what comes from a pipe or a device into a file first: xpwc maps it"
}

func explainRequest(err *url.Error) string {
	host := err.URL
	if u, parseErr := url.Parse(err.URL); parseErr == nil {
		host = u.Host
	}
	cause := err.Err
	var unknown *net.DNSError
	var operation *net.OpError
	var call *os.SyscallError
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Sprintf("the registry %s does not use TLS: give --plain-http, if you trust the network", host)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return fmt.Sprintf("there is no host %s", unknown.Name)
	case errors.As(err, &call):
		cause = call.Err
	case errors.As(err, &operation):
		cause = operation.Err
	}
	if host != "" {
		host += " "
	}
	return fmt.Sprintf("the registry %scannot be reached: %v", host, cause)
}

// explainFlag returns the error of a command's flag or of its value.
func explainFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case !errors.As(err, &unknown):
	case !cmd.HasParent() && len(cmd.Flags().Args()) > 0: // it is the command that is not known
		return unknownCommand(cmd, cmd.Flags().Args()[:1])
	default:
		return fmt.Errorf("%w%s", err, meant("--", flagsLike(cmd, unknown.GetSpecifiedName())))
	}
	if !errors.As(err, &invalid) {
		return err
	}
	cause := invalid.Unwrap()
	switch kind := invalid.GetFlag().Value.Type(); {
	case kind == "duration":
		cause = errors.New("not a duration; write it like 30s or 5m")
	case kind == "bool":
		cause = errors.New("not true or false")
	case errors.Is(err, strconv.ErrRange):
		cause = errors.New("out of range")
	case errors.Is(err, strconv.ErrSyntax):
		cause = errors.New("not a number")
	}
	return fmt.Errorf("--%s %s: %w", invalid.GetFlag().Name, invalid.GetValue(), cause)
}

// flagsLike returns the names of a command's flags that resemble an unknown one.
func flagsLike(cmd *cobra.Command, name string) []string {
	flags := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra compares names of commands
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return flags.SuggestionsFor(name)
}

// printableLines replaces control characters: names in a message come from files and registries.
func printableLines(message string) string {
	lines := strings.Split(message, "\n")
	for i, line := range lines {
		lines[i] = console.Printable(strings.ReplaceAll(line, "\t", " "))
	}
	return strings.Join(lines, "\n")
}
