// Package llm runs language models with XNNPACK: bundles of LiteRT-LM (.litertlm), and programs of ExecuTorch's
// export_llm (.pte). A [Model] has the packed weights once, in a cache file that a next start maps. Each [Conversation]
// has keys and values of its own:
//
//	m, err := llm.Open("model.litertlm", "model.xpwc", nil)
//	defer m.Close()
//	c, err := m.NewConversation()
//	defer c.Close()
//	err = c.Append(prompt...)                     // tokens
//	token, err := c.Next(ctx, llm.Greedy)         // one more each time
//
// Tokens are numbers here. A bundle has the tokenizer in a section of its own, see [xpwc/models/bundle]. A program's
// tokenizer is another file.
//
// # How it computes
//
// A bundle's model has signatures for a prompt of several tokens (prefill_32, prefill_128) and for one token (decode).
// All of a conversation's tokens but the last are computed by prefill, in pieces as LiteRT-LM's engine cuts them, and
// the last one by decode, which gives the next token's logits. A signature is planned when a text first needs it. The
// keys and values of earlier tokens are inputs and outputs of each signature. They lie in one buffer, in which an
// inference writes only the places of its new tokens. Where a signature does not allow that, an input and an output
// take turns.
//
// A program has one method, which takes the next tokens and the position of the first: any number of them, or one if it
// was exported so. Keys and values are states of the method. It has the memory of the conversation that computes, and
// writes them in place.
package llm
