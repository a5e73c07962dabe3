package executorch

// The slots of program.fbs that say what a program computes.

const ( // Program, besides those of root
	programPlans           = 1
	programConstantBuffer  = 2
	programDelegateData    = 3
	programConstantSegment = 5
)

const ( // ExecutionPlan
	planName      = 0
	planValues    = 2
	planInputs    = 3
	planOutputs   = 4
	planChains    = 5
	planOperators = 6
	planDelegates = 7
)

const chainInstructions = 2 // Chain

const ( // Operator
	operatorName     = 0
	operatorOverload = 1
)

const ( // BackendDelegate
	delegateID        = 0
	delegateProcessed = 1
)

const ( // BackendDelegateDataReference
	referenceLocation = 0
	referenceIndex    = 1

	locationInline  = 0
	locationSegment = 1
)

const inlineData = 0 // BackendDelegateInlineData, and Buffer

const ( // SubsegmentOffsets
	subsegmentSegment = 0
	subsegmentOffsets = 1
)

const ( // Instruction, a union
	instructionType = 0
	instructionArgs = 1
)

const ( // KernelCall and DelegateCall
	callIndex = 0
	callArgs  = 1
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

const ( // EValue, a union
	evalueType = 0
	evalueVal  = 1

	evalueNull       = 1
	evalueInt        = 2
	evalueBool       = 3
	evalueDouble     = 4
	evalueTensor     = 5
	evalueString     = 6
	evalueIntList    = 7
	evalueTensorList = 10

	evalueOptionalTensorList = 11
)

const evalueItem = 0 // Int, Bool, Double, String and the lists

const ( // Tensor
	evalueTensorType       = 0
	evalueTensorOffset     = 1
	evalueTensorSizes      = 2
	evalueTensorDimOrder   = 3
	evalueTensorData       = 5
	evalueTensorAllocation = 6
	evalueTensorDynamism   = 8
	evalueTensorExtra      = 9

	allocationMemory = 0
	allocationLow    = 1
	allocationHigh   = 2

	dynamismStatic = 0
)

const ( // ExtraTensorInfo
	extraName     = 1
	extraLocation = 2

	locationExternal = 1
)

// xnnpackBackend is the ID of the delegates that are read here.
const xnnpackBackend = "XnnpackBackend"
