package kernels

import "maps"

// Parameter types of a signature, one letter each.
const (
	Pointer = 'p' // any pointer; may be null where README.md says so
	Int     = 'i' // int32 or uint32
	Long    = 'l' // int64 or uint64
	Float   = 'f' // float32
)

// Kernel is one entry of a module.
type Kernel struct {
	Module string
	Params string // parameter types, in order
}

// All is every kernel by name, as the tables of README.md have them.
func All() map[string]Kernel { return maps.Clone(all) }

// Lookup finds a kernel by name.
func Lookup(name string) (Kernel, bool) {
	k, ok := all[name]
	return k, ok
}

// conv and pool are the geometry parameters G and P of README.md.
const (
	conv = "iiiiiiiii"
	pool = "iiiiiii"
)

var all = map[string]Kernel{
	"ddp_fill_f32":          {"elementwise", "plf"},
	"ddp_add_f32":           {"elementwise", "pppl"},
	"ddp_scale_f32":         {"elementwise", "plf"},
	"ddp_activate_f32":      {"elementwise", "ppli"},
	"ddp_activate_grad_f32": {"elementwise", "pppli"},
	"ddp_bias_act_f32":      {"elementwise", "ppppli" + "i"},
	"ddp_bias_add_f32":      {"elementwise", "ppli"},

	"ddp_colsum_f32":        {"reduce", "ppli"},
	"ddp_colsum_finish_f32": {"reduce", "ppiii"},
	"ddp_rowsum_f32":        {"reduce", "ppili"},
	"ddp_sumsq_f32":         {"reduce", "pp"},
	"ddp_sumsq_finish_f64":  {"reduce", "ppi"},
	"ddp_nonfinite_f32":     {"reduce", "pp"},

	"ddp_sgd_f32":  {"optim", "pffiif"},
	"ddp_adam_f32": {"optim", "pffffffffif"},

	"ddp_layernorm_f32":      {"layernorm", "ppppppppiif"},
	"ddp_layernorm_grad_f32": {"layernorm", "pppppppppii"},

	"ddp_attention_f32_d16":         {"attention", "pppiiiiif"},
	"ddp_attention_f32_d32":         {"attention", "pppiiiiif"},
	"ddp_attention_f32_d64":         {"attention", "pppiiiiif"},
	"ddp_attention_f32_d128":        {"attention", "pppiiiiif"},
	"ddp_attention_delta_f32":       {"attention", "pppiiii"},
	"ddp_attention_grad_q_f32_d16":  {"attention", "pppppiiiiif"},
	"ddp_attention_grad_q_f32_d32":  {"attention", "pppppiiiiif"},
	"ddp_attention_grad_q_f32_d64":  {"attention", "pppppiiiiif"},
	"ddp_attention_grad_q_f32_d128": {"attention", "pppppiiiiif"},

	"ddp_attention_grad_kv_f32_d16":  {"attention", "pppppiiiiif"},
	"ddp_attention_grad_kv_f32_d32":  {"attention", "pppppiiiiif"},
	"ddp_attention_grad_kv_f32_d64":  {"attention", "pppppiiiiif"},
	"ddp_attention_grad_kv_f32_d128": {"attention", "pppppiiiiif"},

	"ddp_cross_entropy_f32":        {"crossentropy", "pppppiifpi"},
	"ddp_cross_entropy_finish_f32": {"crossentropy", "ppppi"},

	"ddp_embedding_f32":               {"embedding", "ppppliii" + "pi"},
	"ddp_embedding_count_i32":         {"embedding", "ppiipi"},
	"ddp_embedding_scan_i32":          {"embedding", "pppi"},
	"ddp_embedding_scatter_i32":       {"embedding", "pppii"},
	"ddp_embedding_grad_f32":          {"embedding", "pppppiii"},
	"ddp_embedding_position_grad_f32": {"embedding", "ppiii"},

	"ddp_im2col_f32":       {"conv", "pp" + conv},
	"ddp_col2im_f32":       {"conv", "pp" + conv},
	"ddp_channels_out_f32": {"conv", "pppiii"},
	"ddp_channels_in_f32":  {"conv", "ppiii"},

	"ddp_batchnorm_stats_f32":     {"batchnorm", "pppppiiiff"},
	"ddp_batchnorm_rstd_f32":      {"batchnorm", "ppif"},
	"ddp_batchnorm_apply_f32":     {"batchnorm", "ppppppiii"},
	"ddp_batchnorm_grad_sums_f32": {"batchnorm", "ppppppppiiii"},
	"ddp_batchnorm_grad_f32":      {"batchnorm", "ppppppppiii"},

	"ddp_maxpool_f32":      {"pool", "ppp" + pool},
	"ddp_avgpool_f32":      {"pool", "pp" + pool},
	"ddp_maxpool_grad_f32": {"pool", "ppp" + pool + "pi"},
	"ddp_avgpool_grad_f32": {"pool", "pp" + pool},

	"ddp_dropout_f32": {"dropout", "pplifll"},

	"ddp_gemm_f32": {"gemm", "pppiiiiiiiif"},
}
