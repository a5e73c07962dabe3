package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"xpwc"
	"xpwc/xnnpack"
)

// A build says what this process packs with: packed weights are of use to another one if the layout is the same.
type build struct {
	Version string `json:"version"` // xpwc.Version
	Commit  string `json:"commit"`  // xpwc.Commit; empty if it is not known
	XNNPACK string `json:"xnnpack"` // xnnpack.BuildIdentifier
	Layout  string `json:"layout"`  // the fingerprint of xpwc.CurrentLayout; empty where XNNPACK cannot run
}

var buildInfo = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "build_info"),
	"What this process packs with: 1 with the version and commit of xpwc, XNNPACK's build identifier and the layout.",
	[]string{"version", "commit", "xnnpack", "layout"}, nil)

func thisBuild() build {
	b := build{Version: xpwc.Version, Commit: xpwc.Commit(), XNNPACK: xnnpack.BuildIdentifier()}
	if here, err := xpwc.CurrentLayout(); err == nil {
		b.Layout = here.Fingerprint.String()
	}
	return b
}

func collectBuild(samples chan<- prometheus.Metric) {
	b := thisBuild()
	samples <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, b.Version, b.Commit, b.XNNPACK,
		b.Layout)
}
