//go:build cgo

package metrics_test

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"xpwc/metrics"
	"xpwc/models/executorch"
	"xpwc/models/inference"
)

func TestARunnersQueueIsInTheMetrics(t *testing.T) {
	r, err := executorch.Load(filepath.Join("..", "models", "executorch", "testdata", "programs", "mlp_dyn_fp32.pte"),
		"",
		&executorch.Options{Options: inference.Options{Instances: 2}})
	require.NoError(t, err)
	defer r.Close()
	registry := prometheus.NewPedanticRegistry()
	collector := metrics.NewRunnerCollector("mlp", r)
	registry.MustRegister(collector, metrics.NewRunnerCollector("another", r))
	problems, err := testutil.CollectAndLint(collector)
	require.NoError(t, err)
	require.Empty(t, problems)
	n, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	require.Equal(t, 2*reflect.TypeFor[inference.Stats]().NumField(), n, "each field is one")

	_, err = r.Run(t.Context(), make([]float32, r.Inputs()[0].Shape[1]))
	require.NoError(t, err)
	_, err = r.Run(t.Context())
	require.Error(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Run(gone)
	require.Error(t, err)
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP xpwc_runner_abandoned_runs_total Runs that did not wait for their turn until it came.
# TYPE xpwc_runner_abandoned_runs_total counter
xpwc_runner_abandoned_runs_total{model="mlp"} 1
# HELP xpwc_runner_failed_runs_total Runs that had their turn and returned an error.
# TYPE xpwc_runner_failed_runs_total counter
xpwc_runner_failed_runs_total{model="mlp"} 1
# HELP xpwc_runner_instances Runs that can compute at the same time.
# TYPE xpwc_runner_instances gauge
xpwc_runner_instances{model="mlp"} 2
# HELP xpwc_runner_runs_total Runs that computed their outputs.
# TYPE xpwc_runner_runs_total counter
xpwc_runner_runs_total{model="mlp"} 1
`), "xpwc_runner_abandoned_runs_total", "xpwc_runner_failed_runs_total", "xpwc_runner_instances",
		"xpwc_runner_runs_total"))
	require.True(t, registry.Unregister(collector))
}
