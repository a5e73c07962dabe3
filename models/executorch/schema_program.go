package executorch

// The slots of program.fbs that describe the computation.

const (
	// Program, besides those of root
	programPlans           = 1
	programConstantBuffer  = 2
	programDelegateData    = 3
	programConstantSegment = 5
	// ExecutionPlan
	planName      = 0
	planValues    = 2
	planInputs    = 3
	planOutputs   = 4
	planChains    = 5
	planOperators = 6
	planDelegates = 7
	// Chain
	chainInstructions = 2
	// Operator
	operatorName     = 0
	operatorOverload = 1
	// BackendDelegate
	delegateID        = 0
	delegateProcessed = 1
	// BackendDelegateDataReference
	referenceLocation = 0
	referenceIndex    = 1
	// DataLocation
	locationInline  = 0
	locationSegment = 1
	// BackendDelegateInlineData, and Buffer
	inlineData = 0
	// SubsegmentOffsets
	subsegmentSegment = 0
	subsegmentOffsets = 1
	// Instruction, a union
	instructionType = 0
	instructionArgs = 1
	// KernelCall and DelegateCall
	callIndex = 0
	callArgs  = 1
	// EValue, a union
	evalueType = 0
	evalueVal  = 1
	// types of an EValue
	evalueNull               = 1
	evalueInt                = 2
	evalueBool               = 3
	evalueDouble             = 4
	evalueTensor             = 5
	evalueString             = 6
	evalueIntList            = 7
	evalueDoubleList         = 8
	evalueTensorList         = 10
	evalueOptionalTensorList = 11
	// Int, Bool, Double, String and the lists
	evalueItem = 0
	// Tensor
	evalueTensorType       = 0
	evalueTensorOffset     = 1
	evalueTensorSizes      = 2
	evalueTensorDimOrder   = 3
	evalueTensorData       = 5
	evalueTensorAllocation = 6
	evalueTensorDynamism   = 8
	evalueTensorExtra      = 9
	// AllocationDetails
	allocationMemory = 0
	allocationLow    = 1
	allocationHigh   = 2
	// TensorShapeDynamism
	dynamismStatic = 0
	// ExtraTensorInfo
	extraName     = 1
	extraLocation = 2
	// TensorDataLocation
	locationExternal = 1
)

// instructionKind is the type of an Instruction's arguments.
type instructionKind byte

const (
	kernelCall    instructionKind = 1
	delegateCall  instructionKind = 2
	moveCall      instructionKind = 3
	jumpFalseCall instructionKind = 4
	freeCall      instructionKind = 5
)

// xnnpackBackend is the ID of the delegates that are read here.
const xnnpackBackend = "XnnpackBackend"
