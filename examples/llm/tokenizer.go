package main

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A tokenizer is the byte-pair encoding of GPT-2, mostly with each digit by itself, as SmolLM2 has it.
type tokenizer struct {
	ids      *index       // of the tokens' words, each byte as one rune of byteRunes
	ranks    *index       // of the pairs that are merged, with a space between them; the first is merged first
	together bool         // digits are not cut from each other
	begin    []int        // the tokens that a text begins with, unless it is a chat
	ends     map[int]bool // the tokens that end an answer
	system   string       // the system message of a chat that has none; "" adds no message
}

// byteRunes has for each byte the rune that stands for it in a token's word: itself if it is printed, and otherwise one
// from 256 on.
var byteRunes, runeBytes = func() (runes [256]rune, bytes map[rune]byte) {
	bytes = map[rune]byte{}
	next := rune(256)
	for b := range rune(256) {
		r := b
		if !(b >= '!' && b <= '~' || b >= '¡' && b <= '¬' || b >= '®') {
			r, next = next, next+1
		}
		runes[b], bytes[r] = r, byte(b)
	}
	return runes, bytes
}()

func newTokenizer(g *gguf) (*tokenizer, error) {
	for _, needed := range [][2]string{{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", "smollm"}} {
		if got, err := g.strings(needed[0]); err != nil || len(got) != 1 || got[0] != needed[1] {
			return nil, fmt.Errorf("%s: %s is %q, and only %q is read", g.file.Path(), needed[0], got, needed[1])
		}
	}
	words, err := g.strings("tokenizer.ggml.tokens")
	if err != nil {
		return nil, err
	}
	merges, err := g.strings("tokenizer.ggml.merges")
	if err != nil {
		return nil, err
	}
	end, err := g.number("tokenizer.ggml.eos_token_id")
	if err != nil {
		return nil, err
	}
	if rows := g.tensors[embedding].rows; len(words) != rows || !(end < float64(rows)) {
		return nil, fmt.Errorf("%w: %d tokens, the last of a text number %g, with %d vectors", errMalformed, len(words),
			end, rows)
	}
	return &tokenizer{ids: newIndex(words), ranks: newIndex(merges),
		ends: map[int]bool{int(end): true}, system: assistant}, nil
}

// An index finds words of a list. A start makes two, each in a third of the time that a map of Go takes.
type index struct {
	words []string
	seed  maphash.Seed
	slots []uint32 // numbers of words, plus one; 0 is a free slot. Fewer than half are used
}

// newIndex makes an index of words, which it keeps. It does not find empty ones.
func newIndex(words []string) *index {
	x := &index{words, maphash.MakeSeed(), make([]uint32, 1<<bits.Len(uint(2*len(words))))}
	for i, word := range words {
		if word != "" {
			*x.slot(word) = uint32(i + 1)
		}
	}
	return x
}

// slot returns the slot of a word, or the free one where it would be.
func (x *index) slot(word string) *uint32 {
	mask := uint64(len(x.slots) - 1)
	for i := maphash.String(x.seed, word) & mask; ; i = (i + 1) & mask {
		if n := x.slots[i]; n == 0 || x.words[n-1] == word {
			return &x.slots[i]
		}
	}
}

// find returns the number of a word, the last one of equal words.
func (x *index) find(word string) (number int, ok bool) {
	n := *x.slot(word)
	return int(n) - 1, n > 0
}

// encode returns the tokens of a text. Words of special tokens in it are text.
func (t *tokenizer) encode(text string) (tokens []int, err error) {
	for _, part := range splitText(text, t.together) {
		var pieces []string
		for _, b := range []byte(part) {
			pieces = append(pieces, string(byteRunes[b]))
		}
		for _, word := range t.merge(pieces) {
			id, ok := t.ids.find(word)
			if !ok {
				return nil, fmt.Errorf("%w for %q", errText, word)
			}
			tokens = append(tokens, id)
		}
	}
	return tokens, nil
}

// The tokens around a message in ChatML.
const (
	chatBegin = "<|im_start|>"
	chatEnd   = "<|im_end|>"
)

// A message is one of a chat: its role is system, user or assistant.
type message struct{ role, content string }

// assistant is SmolLM2's system message.
const assistant = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

// chat returns the tokens of messages to an assistant, up to where its answer begins, as ChatML has them.
func (t *tokenizer) chat(messages []message) (tokens []int, err error) {
	begin, ok := t.ids.find(chatBegin)
	end, also := t.ids.find(chatEnd)
	if !ok || !also {
		return nil, errors.New("the model's chats are not in ChatML: it has no tokens <|im_start|> and <|im_end|>")
	}
	if t.system != "" && (len(messages) == 0 || messages[0].role != "system") {
		messages = slices.Insert(slices.Clone(messages), 0, message{"system", t.system})
	}
	add := func(text string) {
		var ids []int
		if err == nil {
			ids, err = t.encode(text)
			tokens = append(tokens, ids...)
		}
	}
	for _, m := range messages {
		tokens = append(tokens, begin)
		add(m.role + "\n" + m.content)
		tokens = append(tokens, end)
		add("\n")
	}
	tokens = append(tokens, begin)
	add("assistant\n")
	return tokens, err
}

// merge joins neighbours, the lowest rank first, until no pair has one.
func (t *tokenizer) merge(pieces []string) []string {
	for {
		best, position := len(t.ranks.words), -1
		for i := range len(pieces) - 1 {
			if rank, ok := t.ranks.find(pieces[i] + " " + pieces[i+1]); ok && rank < best {
				best, position = rank, i
			}
		}
		if position < 0 {
			return pieces
		}
		pieces[position] += pieces[position+1]
		pieces = append(pieces[:position+1], pieces[position+2:]...)
	}
}

// decode returns the bytes that a token stands for; a character may take several tokens. Those of a special token are
// its name's.
func (t *tokenizer) decode(token int) string {
	if token >= len(t.ids.words) { // vocabularies are padded
		return ""
	}
	var b strings.Builder
	for _, r := range t.ids.words[token] {
		if c, ok := runeBytes[r]; ok {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// splitText cuts a text into parts that are encoded separately: digits, words and other signs, each with a space before
// it, and white space. Digits are cut from each other unless they are to be together.
func splitText(text string, digitsTogether bool) (parts []string) {
	for text != "" {
		n := partLength(text, digitsTogether)
		parts = append(parts, text[:n])
		text = text[n:]
	}
	return parts
}

var contractions = []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}

// partLength returns how many bytes the text's first part has.
func partLength(text string, digitsTogether bool) int {
	if first, size := utf8.DecodeRuneInString(text); !digitsTogether && unicode.IsNumber(first) {
		return size
	}
	for _, c := range contractions {
		if strings.HasPrefix(text, c) {
			return len(c)
		}
	}
	space := 0
	if text[0] == ' ' {
		space = 1
	}
	classes := []func(rune) bool{unicode.IsLetter, isOther}
	if digitsTogether {
		classes = append(classes, unicode.IsNumber)
	}
	for _, class := range classes {
		if n := span(text[space:], class); n > 0 {
			return space + n
		}
	}
	// White space. The last of it goes with the next part, except a digit.
	n := span(text, unicode.IsSpace)
	if next, _ := utf8.DecodeRuneInString(text[n:]); n == len(text) || !digitsTogether && unicode.IsNumber(next) {
		return n
	}
	if _, last := utf8.DecodeLastRuneInString(text[:n]); n > last {
		return n - last
	}
	return n
}

func isOther(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

// longestPart bounds the time that merging takes, which grows with the square of a part's length.
const longestPart = 256

// span returns how many bytes the runes of a class take that a text begins with, up to about longestPart.
func span(text string, class func(rune) bool) int {
	for i, r := range text {
		if !class(r) || i >= longestPart {
			return i
		}
	}
	return len(text)
}
