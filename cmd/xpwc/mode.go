package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"xpwc/internal/trust"
)

// A fileMode is the mode that an output is to have: zero for that of what it replaces, or else the user's for new
// files.
type fileMode fs.FileMode

// placing says how an output may be put at its path.
type placing struct {
	mode   fileMode
	shared bool // also into a directory that others can change
}

func (o *placing) flags(cmd *cobra.Command) {
	cmd.Flags().Var(&o.mode, "mode",
		"`MODE` of the file, such as 0640 (default that of the file it replaces, or what umask leaves of 0644)")
	sharedFlag(cmd, &o.shared)
}

func sharedFlag(cmd *cobra.Command, shared *bool) {
	cmd.Flags().BoolVar(shared, "allow-shared-directory", false,
		"write also into a directory that others can change, who could put another file there")
}

// errShared: others can change the directory that a file is to be in.
var errShared = errors.New("others could put another file there; correct its owner and mode, choose another " +
	"directory, or give --allow-shared-directory")

// checkDirectory returns an error that matches errShared for a directory that others may rename files in.
func checkDirectory(path string, info fs.FileInfo) error {
	if why := trust.Renamable(info); why != "" {
		return fmt.Errorf("%s: %s: %w", path, why, errShared)
	}
	return nil
}

func (m *fileMode) Type() string { return "mode" }

func (m *fileMode) String() string {
	if *m == 0 {
		return ""
	}
	return fmt.Sprintf("%04o", fs.FileMode(*m))
}

// Set reads an octal mode. One that lets others write is refused: programs would refuse the file.
func (m *fileMode) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 12)
	if err != nil || n&^0o755 != 0 || n&0o400 == 0 {
		return errors.New("not an octal mode such as 0640; its owner must be able to read the file, and others not " +
			"to write to it, else programs do not open it")
	}
	*m = fileMode(n)
	return nil
}
