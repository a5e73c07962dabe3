package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sashabaranov/go-openai"

	"xpwc/models/llm"
)

// The part of OpenAI's API that chats need. Its types are a library's.

// modelName is by which clients ask for the model: the file's name without its extension.
func (s *service) modelName() string {
	base := filepath.Base(s.model)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// listModels answers GET /v1/models.
func (s *service) listModels(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, openai.ModelsList{Models: []openai.Model{{ID: s.modelName(), Object: "model",
		OwnedBy: "local"}}})
}

// chatCompletions answers POST /v1/chat/completions, as one document or as a stream of events.
func (s *service) chatCompletions(w http.ResponseWriter, r *http.Request) {
	var request openai.ChatCompletionRequest
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, longestPrompt)).Decode(&request)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	c, err := s.newCompletion(request)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if request.Stream {
		c.stream(w, r)
		return
	}
	var answer strings.Builder
	finish, err := c.generate(r.Context(), func(part string) error { answer.WriteString(part); return nil })
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	reply(w, http.StatusOK, openai.ChatCompletionResponse{ID: c.id, Object: "chat.completion", Created: c.created,
		Model: s.modelName(), Usage: c.usage(), Choices: []openai.ChatCompletionChoice{{FinishReason: finish,
			Message: openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: answer.String()}}}})
}

// A completion is the answer to one request.
type completion struct {
	service  *service
	tokens   *tokenizer
	prompt   []int
	limit    int // tokens of the answer
	computed int
	choose   llm.Choice
	usageToo bool // a stream ends with the usage
	id       string
	created  int64
}

var errRequest = errors.New("invalid request")

func (s *service) newCompletion(request openai.ChatCompletionRequest) (*completion, error) {
	tokens, err := s.tokens()
	if err != nil {
		return nil, err
	}
	switch {
	case len(request.Messages) == 0:
		return nil, fmt.Errorf("%w: it has no messages", errRequest)
	case request.N > 1 || len(request.Tools) > 0 || len(request.Stop) > 0:
		return nil, fmt.Errorf("%w: n, tools and stop are not supported", errRequest)
	}
	var messages []message
	for _, m := range request.Messages {
		content := m.Content
		for _, part := range m.MultiContent {
			if part.Type != openai.ChatMessagePartTypeText {
				return nil, fmt.Errorf("%w: content of type %q; only text is supported", errRequest, part.Type)
			}
			content += part.Text
		}
		messages = append(messages, message{m.Role, content})
	}
	prompt, err := tokens.chat(messages)
	if err != nil {
		return nil, err
	}
	created := time.Now()
	c := &completion{service: s, tokens: tokens, prompt: prompt, limit: s.options.tokens, created: created.Unix(),
		id: fmt.Sprintf("chatcmpl-%x", created.UnixNano())}
	//lint:ignore SA1019 clients still send the older name
	if n := max(request.MaxTokens, request.MaxCompletionTokens); n > 0 {
		c.limit = n
	}
	sampling := s.sampling
	sampling.Temperature, sampling.TopP = float64(request.Temperature), float64(request.TopP)
	if request.Seed != nil {
		sampling.Seed = uint64(*request.Seed)
	}
	c.choose = sampling.Choice()
	c.usageToo = request.StreamOptions != nil && request.StreamOptions.IncludeUsage
	return c, nil
}

func (c *completion) usage() openai.Usage {
	return openai.Usage{PromptTokens: len(c.prompt), CompletionTokens: c.computed,
		TotalTokens: len(c.prompt) + c.computed}
}

// generate gives the answer to emit, in whole characters, and returns why it ends.
func (c *completion) generate(ctx context.Context, emit func(part string) error) (openai.FinishReason, error) {
	t, err := c.service.newText()
	if err != nil {
		return "", err
	}
	rest := ""
	count := c.service.figures.began(len(c.prompt))
	ended, err := generate(ctx, t, c.prompt, c.limit, c.choose, c.tokens.ends, func(token int) error {
		count()
		c.computed++
		var part string
		if part, rest = wholeCharacters(rest + c.tokens.decode(token)); part == "" {
			return nil
		}
		return emit(part)
	})
	if err == nil && rest != "" {
		err = emit(rest)
	}
	finish := openai.FinishReasonLength
	if ended {
		finish = openai.FinishReasonStop
	}
	return finish, errors.Join(err, t.close())
}

// wholeCharacters cuts off a character that the next token completes.
func wholeCharacters(text string) (whole, rest string) {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if utf8.FullRuneInString(text[i:]) {
				break
			}
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// stream sends each part of the answer as it comes. An error after the first one ends the connection, so that the
// client sees that the answer is not whole.
func (c *completion) stream(w http.ResponseWriter, r *http.Request) {
	controller := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	begun := false
	send := func(event openai.ChatCompletionStreamResponse) error {
		begun = true
		event.ID, event.Object, event.Created = c.id, "chat.completion.chunk", c.created
		event.Model = c.service.modelName()
		document, err := json.Marshal(event)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "data: %s\n\n", document)
		return errors.Join(err, controller.Flush())
	}
	choice := func(delta openai.ChatCompletionStreamChoiceDelta, finish openai.FinishReason,
	) openai.ChatCompletionStreamResponse {
		return openai.ChatCompletionStreamResponse{Choices: []openai.ChatCompletionStreamChoice{
			{Delta: delta, FinishReason: finish}}}
	}
	role := openai.ChatMessageRoleAssistant // of the first part
	finish, err := c.generate(r.Context(), func(part string) error {
		delta := openai.ChatCompletionStreamChoiceDelta{Content: part, Role: role}
		role = ""
		return send(choice(delta, ""))
	})
	if err == nil {
		err = send(choice(openai.ChatCompletionStreamChoiceDelta{}, finish))
	}
	if err == nil && c.usageToo {
		usage := c.usage()
		err = send(openai.ChatCompletionStreamResponse{Choices: []openai.ChatCompletionStreamChoice{}, Usage: &usage})
	}
	if err == nil {
		_, err = fmt.Fprint(w, "data: [DONE]\n\n")
	}
	switch {
	case err != nil && !begun:
		refuse(w, statusOf(err), err)
	case err != nil:
		panic(http.ErrAbortHandler)
	}
}

func reply(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // the client may have gone
}

// statusOf returns the status of an answer that has no token: whether the prompt or the service is wrong.
func statusOf(err error) int {
	if errors.Is(err, llm.ErrFull) || errors.Is(err, errEmpty) || errors.Is(err, errText) {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// refuse answers with an error as OpenAI's clients read it.
func refuse(w http.ResponseWriter, status int, err error) {
	kind := "server_error"
	if status == http.StatusBadRequest {
		kind = "invalid_request_error"
	}
	reply(w, status, openai.ErrorResponse{Error: &openai.APIError{Message: err.Error(), Type: kind}})
}
