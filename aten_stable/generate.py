"""Writes generated_methods.h and generated_functions.h: ATen's functions as torch's own table of operators declares them.

python -m aten_stable.generate TABLE...: native_functions.yaml (torchgen/packaged/ATen/native in site-packages) of other torches, such
as the oldest and the newest that are supported. It needs torch and PyYAML. What all of these and this torch declare alike is
written; the rest is left out.
"""

import argparse
import re
from pathlib import Path

from aten_stable import INCLUDE

# Hand-written in tensor.h, ops.h and factories.h.
BY_HAND = re.compile(
    r"(add|sub|mul|div)_?|(eq|ne|lt|le|gt|ge)|size|stride|numel|is_floating_point|is_complex|is_same_size|item|contiguous|to|"
    r"copy_|fill_|type_as|data|requires_grad_|retain_grad|backward|is_leaf|output_nr|set_data|index|index_put_?|full|full_like|"
    r"from_file|is_contiguous|is_set_to|scalar_tensor|can_cast|result_type|promote_types|cpu|cuda|view_as_(real|complex)_copy"
)
# Internals of torch, and operators of kinds of tensors that these headers do not cover.
NOT_FOR_EXTENSIONS = re.compile(
    r"_(?!foreach_|_i?(and|or|xor|lshift|rshift)__).*|(?!index_).*_copy|.*_jvp|.*quantize.*|q_.*|int_repr|fbgemm_.*|mkldnn_.*|miopen_.*|cudnn_.*|mps_.*|sparse_.*|nested_.*|"
    r"to_(sparse|mkldnn|padded|dense).*|.*_(csr|csc|bsr|bsc|coo)_.*|(crow|col|ccol|row)_indices|coalesce|is_coalesced|"
    r"(thnn|slow|conv_depthwise|fused|quantized|rnn|lstm|gru|batch_norm_(?!gather|elemt|stats)|native_(?!layer|batch|group)).*|"
    r".*(align|rename|refine|names).*|sym_.*|lift.*|record_stream|segment_reduce|unsafe_.*|chain_matmul|"
    r"choose_.*|.*_cell|gradient|histogram.*|.*backward_(elemt|reduce)|cudnn.*|(set|resize_as_sparse|sspaddmm|hspmm|values|indices)_?|"
    r"stft|istft|trapz|trapezoid|kaiser_window|nuclear_norm|frobenius_norm|pad_sequence|vander|ldexp_?|linalg_(?!norm|vector_norm|inv$|det$|solve$|qr$|svd$|cholesky$|eigh$|matrix_norm|cross|pinv$|lstsq$|svdvals$|eigvalsh$|matrix_exp$|matrix_power$|lu_|solve_triangular$|slogdet$|inv_ex$).*"
)
INTERNAL = {"_softmax", "_log_softmax", "_unique", "_unique2", "_softmax_backward_data", "_log_softmax_backward_data"}
TYPES = re.compile(
    r"(Tensor|bool|int|SymInt|float|Scalar|str|ScalarType|Layout|Device|MemoryFormat|Generator)(\[\d*\])?\??|Tensor\?\[\]"
)
RESULTS = re.compile(r"Tensor(\[\])?|bool|int|SymInt|float")
HEAD = (
    "// Written by aten_stable/generate.py from torch's table of operators. One line a function.\n// clang-format off\n"
)


def load(yaml: Path):
    from torchgen.gen import parse_native_yaml

    return parse_native_yaml(str(yaml), str(yaml.with_name("tags.yaml"))).native_functions


def wanted(function) -> bool:
    schema = function.func
    name = str(schema.name.name)
    if name not in INTERNAL and (BY_HAND.fullmatch(name) or NOT_FOR_EXTENSIONS.fullmatch(name)):
        return False
    if schema.kind().name == "out" and "autogen" in str(function.tags):
        return False
    types = [str(argument.type) for argument in schema.arguments.flat_all]
    results = [str(result.type) for result in schema.returns]
    # Of what gives nothing, only the changes of lists: _foreach_add_ and its like.
    returns = bool(results) or name.startswith("_foreach_")
    return all(map(TYPES.fullmatch, types)) and returns and all(map(RESULTS.fullmatch, results))


def plain(cpp: str) -> str:
    return re.sub(r"\b(at|c10)::", "", cpp.replace("::std::", "std::")).replace(" &", "&")


def arguments(function, signature, me: str) -> list[str]:
    """What the call passes, argument by argument of the schema."""
    options = any(a.name == "options" for a in signature.arguments())
    passed = []
    for argument in function.func.arguments.flat_all:
        name = argument.name
        if name == "self":
            name = me
        elif options and name in ("dtype", "layout", "device", "pin_memory"):
            name = f"options.{name}_" if name != "pin_memory" else "options.pinned_memory_"
        elif options and name == "memory_format":
            name = "memory_format ? memory_format : options.memory_format_"
        passed.append(name)
    return passed


def line(function, signature, method: bool) -> str:
    schema = function.func
    names = [argument.name for argument in schema.arguments.flat_all]
    declaration = plain(signature.decl(is_redispatching_fn=False))
    result, _, rest = declaration.partition(f" {signature.name()}(")
    declaration = f"{result} {signature.name()}({rest}"
    if not method and "method" in {v.name for v in function.variants} and "self" in names:
        others = [a.name for a in signature.arguments() if a.name != "self"]
        return f"ATEN_STABLE_LAZY {declaration} {{ return self.{signature.name()}({', '.join(others)}); }}\n"
    passed = arguments(function, signature, "*this" if method else "self")
    kind = re.sub(r"&(?=[,>]|$)", "", result)
    overload = schema.name.overload_name
    name = str(schema.name.name)
    text = '"' + str(schema).replace('"', '\\"') + '"'
    call = f'ATEN_STABLE_OPERATOR({{}}, "{name}", "{overload}", {text}{"".join(", " + p for p in passed)})'
    # The macro's argument must have no bare comma.
    kind = (
        "ATEN_STABLE_TENSORS(" + kind.removeprefix("std::tuple<").removesuffix(">") + ")"
        if kind.startswith("std::tuple")
        else kind
    )
    call = call.format(kind)
    if result.endswith(("&", "&>")):
        outs = [a.name for a in schema.arguments.out] or ["self"]
        if outs == ["self"]:
            given = "const_cast<Tensor&>(*this)" if method else "self"
        else:
            given = outs[0] if len(outs) == 1 else f"{result}({', '.join(outs)})"
        body = f"{call}; return {given};"
    elif any(a.name == "options" for a in signature.arguments()):
        body = f"return with_grad({call}, options);"
    else:
        body = f"return {call};"
    return f"ATEN_STABLE_LAZY {declaration}{' const' if method else ''} {{ {body} }}\n"


def main() -> None:
    import torchgen
    from torchgen import local
    from torchgen.api.types import CppSignatureGroup

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=Path, nargs="+", help="native_functions.yaml of other torches")
    others = [set(re.findall(r"^- func: (.*?)\s*$", t.read_text(), re.MULTILINE)) for t in parser.parse_args().tables]
    shared = set.intersection(*others)
    new = load(Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml")
    methods, functions = [], []
    with local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=False):
        for function in new:
            if not wanted(function) or str(function.func) not in shared:
                continue
            for variant, lines in (("method", methods), ("function", functions)):
                if variant not in {v.name for v in function.variants}:
                    continue
                group = CppSignatureGroup.from_native_function(function, method=variant == "method")
                for signature in group.signatures(symint=False):
                    names = [a.name for a in signature.arguments()]
                    if signature.name().endswith("_outf") or ("dtype" in names and "pin_memory" in names):
                        continue  # the same without TensorOptions: nobody writes it
                    lines.append(line(function, signature, variant == "method"))
    for name, lines in (("methods", methods), ("functions", functions)):
        (INCLUDE / f"aten_stable/generated_{name}.h").write_text(HEAD + "".join(lines))
        print(f"{len(lines)} {name}")


if __name__ == "__main__":
    main()
