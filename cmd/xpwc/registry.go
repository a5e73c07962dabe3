package main

import (
	"time"

	"github.com/spf13/cobra"

	"xpwc/internal/bench/terminal"
	"xpwc/registry"
)

// registryOptions are those of the commands that use a registry.
type registryOptions struct {
	plainHTTP bool
	silence   time.Duration
}

const refHelp = `REF is HOST/NAME:TAG, as with docker; the default of TAG is latest. Credentials are those
that docker login has stored. TLS is not used for a registry on this machine; --plain-http
turns it off for others.`

func (o *registryOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.plainHTTP, "plain-http", false, "do not use TLS (default for a registry on this machine)")
	cmd.Flags().DurationVar(&o.silence, "timeout", registry.DefaultSilence,
		"how long the registry may be silent, as a `DURATION` such as 30s")
	jsonFlag(cmd)
}

// client returns the options of package registry, which show progress.
func (o *registryOptions) client(cmd *cobra.Command, progress *terminal.Progress) *registry.Options {
	client := &registry.Options{Progress: progress.Update, Silence: o.silence}
	if cmd.Flags().Changed("plain-http") {
		client.PlainHTTP = &o.plainHTTP
	}
	return client
}

// A referred is what a reference leads to, and this machine's layout, if that is known.
type referred struct {
	Reference string `json:"reference"`
	Here      string `json:"current_layout,omitempty"`
}

func newReferred(ref string) referred {
	r := referred{Reference: ref}
	if here, err := layoutHere(); err == nil { // otherwise XNNPACK cannot run here
		r.Here = here.String()
	}
	return r
}
