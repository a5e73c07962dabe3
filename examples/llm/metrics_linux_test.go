package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// scraped returns what Prometheus gets: each sum of a name's samples.
func scraped(t *testing.T, url string) map[string]float64 {
	t.Helper()
	response, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, errors.Join(err, response.Body.Close()))
	problems, err := promlint.New(bytes.NewReader(body)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	parse := expfmt.NewTextParser(promodel.UTF8Validation)
	families, err := parse.TextToMetricFamilies(bytes.NewReader(body))
	require.NoError(t, err)
	sums := map[string]float64{}
	for name, family := range families {
		for _, m := range family.Metric {
			sums[name] += m.Counter.GetValue() + m.Gauge.GetValue() + float64(m.Histogram.GetSampleCount())
		}
	}
	return sums
}

// A started service runs as its program does, and ends with the test.
func startedService(t *testing.T, o options) (url string) {
	t.Helper()
	d, err := openDoor(o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stdout, printed := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- d.serve(ctx, "localhost:0", printed) }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
		require.NoError(t, d.close())
	})
	return regexp.MustCompile(`http://\S+`).FindString(line)
}

func TestTheServiceCountsRequestsTokensAndTheCache(t *testing.T) {
	o := options{model: smallBundle, cache: filepath.Join(t.TempDir(), "llm.xpwc"), threads: 1, tokens: 4}
	url := startedService(t, o)
	for prompt, code := range map[string]int{"the rain": http.StatusOK, "": http.StatusBadRequest,
		strings.Repeat("the rain ", 500): http.StatusBadRequest} {
		response, err := http.Post(url+"/?n=3", "text/plain", strings.NewReader(prompt))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		require.Equal(t, code, response.StatusCode)
	}
	sums := scraped(t, url)
	require.EqualValues(t, 3, sums["llm_requests_total"])
	require.EqualValues(t, 3, sums["llm_answer_tokens_total"])
	require.EqualValues(t, 1, sums["llm_first_token_seconds"])
	require.Positive(t, sums["llm_prompt_tokens_total"])
	require.Zero(t, sums["llm_requests_under_way"])
	require.Positive(t, sums["xpwc_packed_entries_total"])
}

// SIGHUP replaces the model while clients ask. The signal reaches the test's own process, which is the service.
func TestASignalReplacesTheModelAndNoRequestIsDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.litertlm")
	content, err := os.ReadFile(smallBundle)
	require.NoError(t, err)
	install := func(content []byte) {
		next := path + ".next"
		require.NoError(t, os.WriteFile(next, content, 0o600))
		require.NoError(t, os.Rename(next, path))
	}
	install(content)
	url := startedService(t, options{model: path, cache: path + ".xpwc", threads: 1, tokens: 8})
	config := openai.DefaultConfig("none")
	config.BaseURL = url + "/v1"
	client := openai.NewClientWithConfig(config)
	want, err := streamed(t.Context(), client, chatRequest("hi"))
	require.NoError(t, err)

	// ask has clients ask until so many signals were handled.
	ask := func(signals float64) {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		for handled := 0.0; handled < signals; handled = scraped(t, url)["llm_model_replacements_total"] {
			var asking sync.WaitGroup
			answers, errs := make([]string, 4), make([]error, 4)
			for i := range answers {
				asking.Go(func() { answers[i], errs[i] = streamed(t.Context(), client, chatRequest("hi")) })
			}
			asking.Wait()
			require.NoError(t, errors.Join(errs...))
			for _, answer := range answers {
				require.Equal(t, want, answer)
			}
		}
	}
	ask(1)
	install(content)
	ask(2)
	install([]byte("no model"))
	ask(3)
}
