package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/registry"
)

// registryOptions are those of the commands that talk to a registry.
type registryOptions struct {
	plainHTTP bool
	json      bool
}

const refHelp = `REF is HOST/NAME:TAG, as with docker; without a tag it is latest. Credentials are those docker login stored. A registry on
this machine is talked to without TLS, any other only with --plain-http.`

func (o *registryOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.plainHTTP, "plain-http", false, "talk to the registry without TLS (default for one on this machine)")
	jsonFlag(cmd, &o.json)
}

// client returns the package's options; a bar shows how far it is.
func (o *registryOptions) client(cmd *cobra.Command, bar *progress) *registry.Options {
	client := &registry.Options{Progress: bar.update}
	if cmd.Flags().Changed("plain-http") {
		client.PlainHTTP = &o.plainHTTP
	}
	return client
}

// report prints what a command came to, as JSON or for people.
func (o *registryOptions) report(w io.Writer, result any, print func() error) error {
	if !o.json {
		return print()
	}
	return printJSON(w, result)
}

// layoutRows adds a row for each layout, with what happened to it, and marks this machine's.
func (t *table) layoutRows(layouts []registry.Layout, what string, here registry.Fingerprint) {
	for _, l := range layouts {
		name := l.Fingerprint.String()
		if l.Fingerprint == here {
			name += " (this machine's)"
		}
		t.row(name, printable(l.Description), fmt.Sprint(l.Entries), size(l.PayloadBytes), size(l.FileBytes), what)
	}
}

func layoutTable() (t table) {
	t.row("layout", "packed for", "entries", "payloads", "file", "")
	return t
}

// layoutHere returns the fingerprint of this machine's layout.
func layoutHere() (registry.Fingerprint, error) {
	l, err := xpwc.CurrentLayout()
	return l.Fingerprint, err
}
