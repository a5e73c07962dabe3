package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"xpwc/metrics"
)

// figures are what the service counts, for Prometheus.
type figures struct {
	registry     *prometheus.Registry
	requests     *prometheus.CounterVec // by handler and code
	underWay     prometheus.Gauge
	promptTokens prometheus.Counter
	answerTokens prometheus.Counter
	firstToken   prometheus.Histogram
	replacements *prometheus.CounterVec // by outcome
}

// Outcomes of a replacement.
const (
	replaced  = "replaced"
	notOpened = "not_opened" // the earlier model goes on serving
)

func newFigures() *figures {
	f := &figures{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "llm_requests_total",
			Help: "Requests that were answered, by handler and HTTP code. An answer that was broken off has no code."},
			[]string{"handler", "code"}),
		underWay: prometheus.NewGauge(prometheus.GaugeOpts{Name: "llm_requests_under_way",
			Help: "Requests that are being answered."}),
		promptTokens: prometheus.NewCounter(prometheus.CounterOpts{Name: "llm_prompt_tokens_total",
			Help: "Tokens of prompts."}),
		answerTokens: prometheus.NewCounter(prometheus.CounterOpts{Name: "llm_answer_tokens_total",
			Help: "Tokens of answers."}),
		firstToken: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "llm_first_token_seconds",
			Help:    "From a prompt to the first token of its answer, with the wait for other requests.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 12)}),
		replacements: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "llm_model_replacements_total",
			Help: "Signals to replace the model, by outcome."}, []string{"outcome"}),
	}
	for _, outcome := range []string{replaced, notOpened} {
		f.replacements.WithLabelValues(outcome)
	}
	f.registry.MustRegister(f.requests, f.underWay, f.promptTokens, f.answerTokens, f.firstToken, f.replacements,
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	return f
}

// began counts a prompt, and returns what counts each token of its answer.
func (f *figures) began(promptTokens int) (token func()) {
	begin, first := time.Now(), true
	f.promptTokens.Add(float64(promptTokens))
	return func() {
		if f.answerTokens.Inc(); first {
			f.firstToken.Observe(time.Since(begin).Seconds())
		}
		first = false
	}
}

// counted counts the requests of a handler.
func (f *figures) counted(name string, h http.HandlerFunc) http.Handler {
	requests := f.requests.MustCurryWith(prometheus.Labels{"handler": name})
	return promhttp.InstrumentHandlerInFlight(f.underWay, promhttp.InstrumentHandlerCounter(requests, h))
}

// cacheFigures collects the figures of the cache that the serving model has.
func (d *door) cacheFigures() prometheus.Collector {
	return prometheus.CollectorFunc(func(samples chan<- prometheus.Metric) {
		e := d.enter()
		defer d.exit(e)
		if cache := e.packedWeights(); cache != nil {
			metrics.NewCollector(cache).Collect(samples)
		}
	})
}
