package main

import (
	"io"

	"github.com/spf13/cobra"

	"xpwc/internal/console"
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
func (o *registryOptions) client(cmd *cobra.Command, bar *console.Progress) *registry.Options {
	client := &registry.Options{Progress: bar.Update}
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
