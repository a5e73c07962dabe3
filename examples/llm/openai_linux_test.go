package main

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"xpwc/models/llm"
)

// served returns a client of a service with the small bundle.
func served(t *testing.T) (*openai.Client, *door) {
	t.Helper()
	cache := filepath.Join(t.TempDir(), "llm.xpwc")
	d, err := openDoor(options{model: smallBundle, cache: cache, threads: 1, tokens: 8})
	require.NoError(t, err)
	server := httptest.NewServer(d.handler())
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, d.close())
	})
	config := openai.DefaultConfig("none")
	config.BaseURL = server.URL + "/v1"
	return openai.NewClientWithConfig(config), d
}

func chatRequest(content string) openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{Model: "small", MaxCompletionTokens: 12,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: content}}}
}

// streamed returns the whole answer to a request, which comes in parts.
func streamed(ctx context.Context, client *openai.Client, request openai.ChatCompletionRequest,
) (answer string, err error) {
	stream, err := client.CreateChatCompletionStream(ctx, request)
	if err != nil {
		return "", err
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return answer, stream.Close()
		}
		if err != nil {
			return "", err
		}
		for _, c := range event.Choices {
			answer += c.Delta.Content
		}
	}
}

func TestAChatIsAnsweredAtOnceAndInParts(t *testing.T) {
	client, _ := served(t)
	list, err := client.ListModels(t.Context())
	require.NoError(t, err)
	require.Equal(t, "small", list.Models[0].ID)
	whole, err := client.CreateChatCompletion(t.Context(), chatRequest("hi"))
	require.NoError(t, err)
	require.NotEmpty(t, whole.Choices[0].Message.Content)
	require.Equal(t, "assistant", whole.Choices[0].Message.Role)
	require.LessOrEqual(t, whole.Usage.CompletionTokens, 12)
	require.Positive(t, whole.Usage.PromptTokens)
	answer, err := streamed(t.Context(), client, chatRequest("hi"))
	require.NoError(t, err)
	require.Equal(t, whole.Choices[0].Message.Content, answer)
}

func TestARequestThatCannotBeAnsweredIsAnErrorOfTheClient(t *testing.T) {
	client, _ := served(t)
	none := chatRequest("hi")
	none.Messages = nil
	several := chatRequest("hi")
	several.N = 2
	for _, request := range []openai.ChatCompletionRequest{none, several} {
		_, err := client.CreateChatCompletion(t.Context(), request)
		var refused *openai.APIError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 400, refused.HTTPStatusCode)
		require.Contains(t, refused.Message, errRequest.Error())
	}
}

func TestAChatThatTheModelHasNoRoomForIsAnErrorOfTheClient(t *testing.T) {
	client, _ := served(t)
	long := chatRequest(strings.Repeat("the rain ", 500))
	_, err := client.CreateChatCompletion(t.Context(), long)
	var refused *openai.APIError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 400, refused.HTTPStatusCode)
	require.Contains(t, refused.Message, llm.ErrFull.Error())
	_, err = streamed(t.Context(), client, long)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 400, refused.HTTPStatusCode)
}

func TestAModelIsReplacedWhileItAnswers(t *testing.T) {
	client, d := served(t)
	want, err := client.CreateChatCompletion(t.Context(), chatRequest("hi"))
	require.NoError(t, err)
	var asking sync.WaitGroup
	answers := make([]string, 12)
	errs := make([]error, len(answers)+1)
	for i := range answers {
		asking.Go(func() { answers[i], errs[i] = streamed(t.Context(), client, chatRequest("hi")) })
	}
	asking.Go(func() {
		for range 3 {
			errs[len(answers)] = errors.Join(errs[len(answers)], d.reload())
		}
	})
	asking.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, answer := range answers {
		require.Equal(t, want.Choices[0].Message.Content, answer)
	}
	d.options.model = filepath.Join(t.TempDir(), "none.litertlm")
	require.Error(t, d.reload())
	_, err = client.CreateChatCompletion(t.Context(), chatRequest("hi"))
	require.NoError(t, err, "the earlier model goes on serving")
}

func TestACharacterIsSentWhole(t *testing.T) {
	for text, want := range map[string][2]string{
		"": {"", ""}, "abc": {"abc", ""}, "a\xc3": {"a", "\xc3"}, "aé": {"aé", ""},
		"\xf0\x9f\x98":         {"", "\xf0\x9f\x98"},
		"\x80\x80\x80\x80\x80": {"\x80\x80\x80\x80\x80", ""},
	} {
		whole, rest := wholeCharacters(text)
		require.Equal(t, want, [2]string{whole, rest})
	}
}
