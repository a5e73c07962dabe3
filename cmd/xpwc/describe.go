package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"xpwc/described"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
)

// onlyOutput checks that --describe is given with -o alone.
func onlyOutput(cmd *cobra.Command) error {
	for _, other := range []string{"description", "cpu", "for", "mode", "embed-beside", "align", "json"} {
		if cmd.Flags().Changed(other) {
			return usagef("--describe packs nothing, and --%s does not go with it", other)
		}
	}
	return nil
}

// describeTensors writes a description to start from, to a new file or to stdout, and says what is to be done with it.
func describeTensors(model modelfile.File, path string, stdout, stderr io.Writer) (err error) {
	if !model.Described() {
		return usagef("--describe is for tensors (.safetensors or an index, .npy or a directory, .ptd), not for %s",
			model.Path)
	}
	tensors, err := described.OpenTensors(model.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tensors.Close()) }()
	operators := described.Describe(tensors)
	if len(operators) == 0 {
		return fmt.Errorf("%s has no tensors", model.Path)
	}
	text, err := described.Format(operators)
	if err != nil {
		return err
	}
	if err := writeNew(path, text, stdout); err != nil {
		return err
	}
	left := 0
	for _, o := range operators {
		if o.Op == described.LeftOut {
			left++
		}
	}
	_, err = fmt.Fprintf(stderr, "note: %s, and %s left out; see \"note\" and \"assumed\"\n",
		console.Plural(len(operators)-left, "operator"), console.Plural(left, "tensor"))
	return err
}

// writeNew writes a file that is not there yet, or without a path to stdout.
func writeNew(path string, text []byte, stdout io.Writer) error {
	if path == "" {
		_, err := stdout.Write(text)
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return leftAsItIs(fmt.Errorf("%s exists", path))
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
