// Package htm is the parts of a Hierarchical Temporal Memory: an encoder, a spatial pooler, a
// temporal memory and a classifier. The forecaster HTM puts them together.
package htm

const wordBytes = 8
