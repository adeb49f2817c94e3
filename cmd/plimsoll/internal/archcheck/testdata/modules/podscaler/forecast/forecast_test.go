package forecast

import (
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)
