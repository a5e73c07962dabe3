package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"

	"xpwc"
	"xpwc/models"
	"xpwc/models/llm"
	"xpwc/xnnpack"
)

// An instance is a runtime of a model with the keys and values of one text. One goroutine uses it.
type instance struct {
	*model
	runtime *xnnpack.Runtime
	pool    *xnnpack.Threadpool
	session *xpwc.Session  // nil without a cache
	memory  *models.Memory // nil with one

	buffers      map[xnnpack.ValueID]*xnnpack.Buffer
	tokens, past int // what the runtime is shaped for
	length       int // how many tokens of the text there are
}

const (
	// chunk is the largest number of tokens that are computed at a time.
	chunk = 64
	// leastPast is what the caches of keys and values begin with; they are doubled when they are full.
	leastPast = 64
)

// newInstance makes a runtime whose packed weights are in the cache, or its own if that is nil. The caller closes it.
func (m *model) newInstance(cache *xpwc.Cache, threads int) (_ *instance, err error) {
	i := &instance{model: m, buffers: map[xnnpack.ValueID]*xnnpack.Buffer{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.close())
		}
	}()
	c := m.constants()
	var loader models.Loader
	var weightsCache xnnpack.WeightsCache
	if cache == nil {
		i.memory = models.NewMemory(c)
		defer i.memory.Finalize()
		loader = i.memory
	} else {
		if i.session, err = cache.NewSession(c); err != nil {
			return nil, err
		}
		loader, weightsCache = i.session, i.session
	}
	if i.pool, err = xnnpack.NewThreadpool(threads); err != nil {
		return nil, err
	}
	subgraph, err := c.build(loader, 1, leastPast)
	if err != nil {
		return nil, err
	}
	i.runtime, err = xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: weightsCache,
		Threadpool: i.pool})
	if i.session != nil {
		err = errors.Join(err, i.session.Finalize())
	}
	return i, errors.Join(err, subgraph.Delete())
}

func (i *instance) close() (err error) {
	if i.runtime != nil {
		err = i.runtime.Delete()
	}
	if i.pool != nil {
		i.pool.Close()
	}
	for _, b := range i.buffers {
		b.Free()
	}
	if i.memory != nil {
		err = errors.Join(err, i.memory.Close())
	}
	if i.session != nil {
		err = errors.Join(err, i.session.Close())
	}
	return err
}

// next adds tokens, one at least, to the text, and returns the logits of the next token, which stay until the next
// call.
func (i *instance) next(ctx context.Context, tokens []int) (logits []float32, err error) {
	for len(tokens) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(len(tokens), chunk)
		if logits, err = i.compute(tokens[:n]); err != nil {
			return nil, err
		}
		tokens = tokens[n:]
	}
	return logits, nil
}

func (i *instance) compute(tokens []int) ([]float32, error) {
	if err := i.shape(len(tokens), i.length+len(tokens)); err != nil {
		return nil, err
	}
	i.embed(i.floats(idTokens), tokens)
	i.setAngles()
	i.setMask()
	pick := i.floats(idPick)[:len(tokens)]
	clear(pick)
	pick[len(tokens)-1] = 1
	if err := i.runtime.Invoke(); err != nil {
		return nil, err
	}
	if i.session != nil {
		if err := i.session.Err(); err != nil {
			return nil, err
		}
	}
	begin, end := i.length*i.keyWidth(), (i.length+len(tokens))*i.keyWidth()
	for layer := range i.layers {
		for kind := range newKeys { // of the past
			copy(i.floats(cacheID(layer, kind))[begin:end], i.floats(cacheID(layer, kind+newKeys)))
		}
	}
	i.length += len(tokens)
	return i.floats(idLogits), nil
}

func (i *instance) floats(id xnnpack.ValueID) []float32 { return i.buffers[id].Float32s() }

// shape readies the runtime for so many new tokens, with room for so many in all.
func (i *instance) shape(tokens, total int) error {
	if total > i.context {
		return fmt.Errorf("%w: %d tokens, and the model was made for %d", llm.ErrFull, total, i.context)
	}
	past := max(i.past, leastPast)
	for past < total {
		past *= 2
	}
	if tokens == i.tokens && past == i.past {
		return nil
	}
	inputs, shapes := i.shapes(tokens, past)
	for id, shape := range inputs {
		if err := i.runtime.ReshapeExternal(id, shape); err != nil {
			return err
		}
	}
	if err := i.runtime.Reshape(); err != nil {
		return err
	}
	maps.Copy(shapes, inputs)
	memory := map[xnnpack.ValueID][]byte{}
	for id, shape := range shapes {
		size := 4 * xnnpack.Elements(shape)
		old := i.buffers[id]
		if old == nil || len(old.Bytes()) < size {
			b, err := xnnpack.NewBuffer(size)
			if err != nil {
				return err
			}
			if i.buffers[id] = b; old != nil {
				copy(b.Bytes(), old.Bytes())
				defer old.Free() // the runtime lets go of it in Setup
			}
		}
		memory[id] = i.buffers[id].Bytes()
	}
	i.floats(idEpsilon)[0] = float32(i.epsilon)
	i.tokens, i.past = tokens, past
	return i.runtime.Setup(memory)
}

// setAngles sets what heads are turned by: the angle of pair p of a head is position / ropeBase^(2p/headSize).
func (i *instance) setAngles() {
	cosine, sine, half := i.floats(idCosine), i.floats(idSine), i.headSize/2
	for p := range half {
		frequency := math.Pow(i.ropeBase, -float64(p)/float64(half))
		for t := range i.tokens {
			s, c := math.Sincos(float64(i.length+t) * frequency)
			sine[t*half+p], cosine[t*half+p] = float32(s), float32(c)
		}
	}
}

// unseen is added to the scores of tokens that are not there, or come later: their share is then zero.
const unseen = -1e9

func (i *instance) setMask() {
	mask, columns := i.floats(idMask), i.past+i.tokens
	for row := range i.heads / i.keyHeads * i.tokens {
		token := row % i.tokens
		for column := range columns {
			seen := column < i.length || column >= i.past && column-i.past <= token
			mask[row*columns+column] = 0
			if !seen {
				mask[row*columns+column] = unseen
			}
		}
	}
}
