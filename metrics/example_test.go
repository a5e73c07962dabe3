package metrics_test

import (
	"expvar"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"xpwc"
	"xpwc/metrics"
)

// A program that serves promhttp.Handler, or a handler of a registry of its own, gives its caches' figures with it.
func ExampleNewCollector() {
	cache, err := xpwc.Open("", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(cache))

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "xpwc_private_packed_entries_total" {
			for _, m := range f.Metric {
				for _, l := range m.Label {
					fmt.Printf("%s=%q ", l.GetName(), l.GetValue())
				}
				fmt.Println(m.Counter.GetValue())
			}
		}
	}
	// Output:
	// path="memory" reason="busy" 0
	// path="memory" reason="disk" 0
	// path="memory" reason="read-only" 0
	// path="memory" reason="unnamed" 0
	// path="memory" reason="version" 0
}

// A program that serves expvar.Handler, as net/http's default does at /debug/vars, publishes its caches' figures.
func ExampleVar() {
	dir, err := os.MkdirTemp("", "xpwc")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cache, err := xpwc.Open(filepath.Join(dir, "model.xpwc"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	expvar.Publish("xpwc", metrics.Var(cache))
	// Then GET /debug/vars has {"xpwc": {"build_info": {…}, "caches": {"/…/model.xpwc": {"lookup_hits_total": 0, …}}}}.
}
