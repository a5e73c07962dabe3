package main

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"

	"xpwc/models/bundle"
	"xpwc/models/llm"
)

// Limits for the sections around the model. The tokenizers of today's models have some 20 MiB of JSON.
const (
	mostMetadata  = 1 << 20
	mostTokenizer = 64 << 20
	// firstTokenizer is how much memory a tokenizer gets before it is read: the size in the bundle may be wrong.
	firstTokenizer = 32 << 20
	mostTokens     = 1 << 20
)

// bundleTokenizer reads the tokenizer of a bundle of LiteRT-LM, and the tokens that end an answer from its metadata.
func bundleTokenizer(path string) (*tokenizer, error) {
	b, err := bundle.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := readTokenizer(f, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// programTokenizer reads the tokenizer of a program of ExecuTorch, a file of its own. The program has the tokens that
// end an answer.
func programTokenizer(path string, m *llm.Model) (*tokenizer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the tokenizer (-tokenizer): %w", err)
	}
	defer f.Close()
	document, err := limited(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t, err := huggingFaceTokenizer(document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, id := range m.Ends() {
		t.ends[int(id)] = true
	}
	if id, ok := t.ids.find(chatEnd); ok { // ends an answer of a chat, which the export does not list
		t.ends[id] = true
	}
	return t, nil
}

func readTokenizer(f io.ReaderAt, b *bundle.Bundle) (t *tokenizer, err error) {
	var starts, ends []markToken
	for _, s := range b.Sections {
		section := io.NewSectionReader(f, s.Offset, s.Size)
		switch s.Type {
		case "LlmMetadataProto":
			if s.Size > mostMetadata {
				return nil, fmt.Errorf("%w: %d bytes of metadata", errMalformed, s.Size)
			}
			content := make([]byte, s.Size)
			if _, err := io.ReadFull(section, content); err != nil {
				return nil, err
			}
			if starts, ends, err = markTokens(content); err != nil {
				return nil, err
			}
		case "HF_Tokenizer_Zlib":
			document, err := inflated(section)
			if err != nil {
				return nil, err
			}
			if t, err = huggingFaceTokenizer(document); err != nil {
				return nil, err
			}
		}
	}
	if t == nil {
		return nil, errors.New("the bundle has no tokenizer of Hugging Face, and no other is read")
	}
	t.mark(starts, ends)
	return t, nil
}

// mark notes what a text begins with, and what ends an answer.
func (t *tokenizer) mark(starts, ends []markToken) {
	for _, start := range starts {
		if id, ok := t.ids.find(start.text); ok {
			t.begin = append(t.begin, id)
		} else {
			t.begin = append(t.begin, start.ids...)
		}
	}
	for _, end := range ends {
		if len(end.ids) == 1 {
			t.ends[end.ids[0]] = true
		} else if id, ok := t.ids.find(strings.TrimRight(end.text, "\n")); ok { // the template's line ends after it
			t.ends[id] = true
		}
	}
}

// inflated returns the content of a section that has its size, as 8 bytes, and then a stream of zlib.
func inflated(section io.Reader) ([]byte, error) {
	var size uint64
	if err := binary.Read(section, binary.LittleEndian, &size); err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(section)
	if err != nil {
		return nil, err
	}
	if size > mostTokenizer {
		return nil, fmt.Errorf("%w: a tokenizer of %d bytes", errMalformed, size)
	}
	content := bytes.NewBuffer(make([]byte, 0, min(size, firstTokenizer)+bytes.MinRead))
	if _, err := io.Copy(content, io.LimitReader(z, mostTokenizer+1)); err != nil {
		return nil, err
	}
	if uint64(content.Len()) != size {
		return nil, fmt.Errorf("%w: a tokenizer of %d bytes, and not %d", errMalformed, content.Len(), size)
	}
	return content.Bytes(), nil
}

// limited returns the content of a tokenizer that is not too large.
func limited(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, mostTokenizer+1))
	if len(content) > mostTokenizer {
		err = fmt.Errorf("%w: a tokenizer of more than %d bytes", errMalformed, mostTokenizer)
	}
	return content, err
}

// huggingFace is a tokenizer.json, as far as it is read.
type huggingFace struct {
	AddedTokens []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
	} `json:"added_tokens"`
	Normalizer   jsontext.Value `json:"normalizer"`
	PreTokenizer preTokenizer   `json:"pre_tokenizer"`
	Model        struct {
		Type         string     `json:"type"`
		ByteFallback bool       `json:"byte_fallback"`
		Vocab        vocabulary `json:"vocab"`
		Merges       merges     `json:"merges"`
	} `json:"model"`
}

// A list is words one after the other in one piece of memory: a tokenizer has some 100,000, and a start waits for them.
type list struct {
	text []byte
	ends []int // of the words in it
}

// end ends a word that was appended to the text.
func (l *list) end() { l.ends = append(l.ends, len(l.text)) }

// words returns the words of a complete list.
func (l *list) words() []string {
	words, text, begin := make([]string, len(l.ends)), string(l.text), 0
	for i, end := range l.ends {
		words[i], begin = text[begin:end], end
	}
	return words
}

// appendText appends the next value, which must be a text.
func (l *list) appendText(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err == nil {
		l.text, err = jsontext.AppendUnquote(l.text, value)
	}
	return err
}

// newList makes room for the usual tokens.
func newList() list { return list{make([]byte, 0, 8*usualTokens), make([]int, 0, usualTokens)} }

// A vocabulary has tokens with their numbers.
type vocabulary struct {
	list
	numbers []int
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (v *vocabulary) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*v = vocabulary{newList(), make([]int, 0, usualTokens)}
	return eachElement(d, '{', func() error {
		if err := v.appendText(d); err != nil {
			return err
		}
		v.end()
		number, err := d.ReadToken()
		if err != nil {
			return err
		}
		if number.Kind() != '0' {
			return fmt.Errorf("%w: token %d has no number", errMalformed, len(v.numbers))
		}
		id, err := number.Int()
		v.numbers = append(v.numbers, int(id))
		return err
	})
}

// merges are pairs of words, with a space between them. A tokenizer has them so, or as arrays of two.
type merges struct{ list }

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (m *merges) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	m.list = newList()
	return eachElement(d, '[', func() (err error) {
		begin := len(m.text)
		if d.PeekKind() == '[' {
			err = eachElement(d, '[', func() error {
				if len(m.text) > begin {
					m.text = append(m.text, ' ')
				}
				return m.appendText(d)
			})
		} else {
			err = m.appendText(d)
		}
		if pair := m.text[begin:]; err == nil && bytes.Count(pair, []byte{' '}) != 1 {
			err = fmt.Errorf("%w: merge %d is %.40q", errMalformed, len(m.ends), pair)
		}
		m.end()
		return err
	})
}

// usualTokens is what the tables of tokens begin with.
const usualTokens = 1 << 16

// eachElement reads an array or an object. read reads an element of it.
func eachElement(d *jsontext.Decoder, begin jsontext.Kind, read func() error) error {
	if first, err := d.ReadToken(); err != nil || first.Kind() != begin {
		return errors.Join(err, fmt.Errorf("%w: %v, and not %v", errMalformed, first.Kind(), begin))
	}
	for kind := d.PeekKind(); kind != ']' && kind != '}'; kind = d.PeekKind() {
		if err := read(); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

type preTokenizer struct {
	Type             string         `json:"type"`
	Pretokenizers    []preTokenizer `json:"pretokenizers"`
	IndividualDigits bool           `json:"individual_digits"`
	AddPrefixSpace   bool           `json:"add_prefix_space"`
	UseRegex         *bool          `json:"use_regex"`
}

// digitsAlone reports whether digits are cut from each other, and whether the rest is cut as GPT-2 does.
func (p preTokenizer) digitsAlone() (alone, gpt2 bool) {
	parts := p.Pretokenizers
	if p.Type != "Sequence" {
		parts = []preTokenizer{p}
	}
	for i, part := range parts {
		switch {
		case part.Type == "Digits" && part.IndividualDigits && i == 0:
			alone = true
		case part.Type == "ByteLevel" && !part.AddPrefixSpace && (part.UseRegex == nil || *part.UseRegex):
			gpt2 = i == len(parts)-1
		default:
			return alone, false
		}
	}
	return alone, gpt2
}

// huggingFaceTokenizer reads a tokenizer.json. Only the byte-pair encoding of GPT-2 is read.
func huggingFaceTokenizer(document []byte) (*tokenizer, error) {
	var h huggingFace
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := json.Unmarshal(document, &h, lenient); err != nil {
		return nil, fmt.Errorf("%w: the tokenizer: %w", errMalformed, err)
	}
	alone, gpt2 := h.PreTokenizer.digitsAlone()
	normalizes := len(h.Normalizer) > 0 && string(h.Normalizer) != "null"
	if h.Model.Type != "BPE" || h.Model.ByteFallback || !gpt2 || normalizes {
		return nil, fmt.Errorf("the tokenizer is %s after %s, and only the byte-pair encoding of GPT-2 is read",
			h.Model.Type, h.PreTokenizer.Type)
	}
	v := &h.Model.Vocab
	for _, a := range h.AddedTokens {
		v.text = append(v.text, a.Content...)
		v.end()
		v.numbers = append(v.numbers, a.ID)
	}
	words := make([]string, 0, len(v.numbers))
	for i, word := range v.words() {
		id := v.numbers[i]
		if id < 0 || id >= mostTokens {
			return nil, fmt.Errorf("%w: token %q is number %d", errMalformed, word, id)
		}
		words = append(words, make([]string, max(0, id+1-len(words)))...)
		words[id] = word
	}
	return &tokenizer{ids: newIndex(words), ranks: newIndex(h.Model.Merges.words()), together: !alone,
		ends: map[int]bool{}}, nil
}

// A markToken begins a text or ends an answer: it is a text, or numbers of tokens.
type markToken struct {
	text string
	ids  []int
}

// Fields of LiteRT-LM's metadata (LlmMetadata), of a token in it, and of the numbers of tokens.
const (
	metadataStart protowire.Number = 1
	metadataStops protowire.Number = 2
	stopIDs       protowire.Number = 1
	stopText      protowire.Number = 2
	idsOfStop     protowire.Number = 1
)

// markTokens returns what begins a text, and what ends an answer.
func markTokens(metadata []byte) (starts, ends []markToken, err error) {
	metadata = bytes.TrimRight(metadata, "\x00") // sections are padded
	err = eachField(metadata, func(number protowire.Number, content []byte) error {
		list := &ends
		switch number {
		case metadataStart:
			list = &starts
		case metadataStops:
		default:
			return nil
		}
		mark, err := readMark(content)
		*list = append(*list, mark)
		return err
	})
	return starts, ends, err
}

func readMark(content []byte) (mark markToken, err error) {
	err = eachField(content, func(number protowire.Number, content []byte) (err error) {
		switch number {
		case stopText:
			mark.text = string(content)
		case stopIDs:
			err = eachField(content, func(number protowire.Number, content []byte) error {
				if number == idsOfStop {
					mark.ids, err = packedNumbers(content)
				}
				return err
			})
		}
		return err
	})
	return mark, err
}

// packedNumbers reads numbers that lie one after the other.
func packedNumbers(b []byte) (numbers []int, err error) {
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 || v > mostTokens {
			return nil, fmt.Errorf("%w: metadata: a token's number", errMalformed)
		}
		numbers, b = append(numbers, int(v)), b[n:]
	}
	return numbers, nil
}

// eachField calls do for the fields of a message of Protocol Buffers that are texts or messages.
func eachField(message []byte, do func(number protowire.Number, content []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("%w: metadata: %w", errMalformed, protowire.ParseError(n))
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			return fmt.Errorf("%w: metadata: %w", errMalformed, protowire.ParseError(size))
		}
		if kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(message)
			if err := do(number, content); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}
