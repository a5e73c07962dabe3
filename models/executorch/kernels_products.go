package executorch

import (
	"slices"

	"xpwc/internal/operators"
)

// Matrix products, softmax and layer norms in Go: of integers, double precision and bfloat16.

func (c *invocation) matricesInGo() {
	if c.name != "aten::addmm.out" {
		c.hostResult(operators.Products(1, 1), 0, 1)
		return
	}
	beta, alpha := 1.0, 1.0
	if len(c.args) > 4 {
		beta, alpha = c.number(3), c.number(4)
	}
	c.hostResult(operators.Products(alpha, beta), 1, 2, 0)
}

func (c *invocation) linearInGo() {
	c.hostResult(operators.Linear(), c.present(0, 1, 2)...)
}

func (c *invocation) softmaxInGo() {
	c.hostResult(operators.Softmax(c.axis(c.tensor(0), c.integer(1))), 0)
}

func (c *invocation) layerNormInGo() {
	norm := operators.LayerNorm(len(c.integers(1)), c.number(4), !c.absent(2), !c.absent(3))
	c.hostTo([]int{5}, norm, c.present(0, 2, 3)...)
}

// present drops the arguments that a call leaves out.
func (c *invocation) present(arguments ...int) []int {
	return slices.DeleteFunc(arguments, c.absent)
}
