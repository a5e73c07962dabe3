package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"
)

// A fileMode is the mode that an output is to have: zero for that of what it replaces, or else the user's for new
// files.
type fileMode fs.FileMode

func modeFlag(cmd *cobra.Command, m *fileMode) {
	cmd.Flags().Var(m, "mode",
		"`MODE` of the file, such as 0640 (default that of the file it replaces, or what umask leaves of 0644)")
}

// set gives the output of a stage the mode.
func (m fileMode) set(s *stage) {
	if m != 0 {
		s.mode = fs.FileMode(m)
	}
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
	switch {
	case err != nil || n&^0o777 != 0 || n == 0:
		return errors.New("not an octal mode such as 0640")
	case n&0o022 != 0:
		return errors.New("it lets others write to the file, and programs do not open such a cache")
	case n&0o400 == 0:
		return errors.New("its owner could not read the file")
	}
	*m = fileMode(n)
	return nil
}
