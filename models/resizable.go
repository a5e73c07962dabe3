package models

// A Resizable model computes with inputs of several shapes: none of their dimensions is larger than in the shapes of
// Inputs. The same constants have the same names, and are packed alike, in all shapes.
type Resizable interface {
	Model
	// Resized returns the model for inputs of these shapes, one for each of Inputs. Its outputs have the shapes that
	// the model computes from these inputs. It reads the files of the model that it was made of, which must stay open
	// and alone is closed. The error names the input, and the shapes that it takes.
	Resized(shapes [][]int) (Model, error)
	// DynamicDims returns for each input the dimensions that may be smaller than in its shape, in ascending order.
	// Some may have to be equal: Resized reports if they are not.
	DynamicDims() [][]int
}
