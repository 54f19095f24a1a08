"""Build Mosaic TPU kernels op by op, with the very bytes Pallas would emit.

Needs jaxlib, ml_dtypes and numpy; not jax. Start with `Builder`.
"""

from mosaic_tpu.builder._registry import OpSpec as OpSpec
from mosaic_tpu.builder._registry import registry as registry
from mosaic_tpu.builder._types import TypeInfo as TypeInfo
from mosaic_tpu.builder._value import Value as Value
from mosaic_tpu.builder.builder import Args as Args
from mosaic_tpu.builder.builder import Builder as Builder
from mosaic_tpu.builder.builder import sanitize_name as sanitize_name
from mosaic_tpu.builder.dtypes import DType as DType
from mosaic_tpu.builder.dtypes import as_dtype as as_dtype
from mosaic_tpu.builder.dtypes import bf16 as bf16
from mosaic_tpu.builder.dtypes import dma_semaphore as dma_semaphore
from mosaic_tpu.builder.dtypes import f8e4m3b11fnuz as f8e4m3b11fnuz
from mosaic_tpu.builder.dtypes import f8e4m3fn as f8e4m3fn
from mosaic_tpu.builder.dtypes import f8e5m2 as f8e5m2
from mosaic_tpu.builder.dtypes import f16 as f16
from mosaic_tpu.builder.dtypes import f32 as f32
from mosaic_tpu.builder.dtypes import f64 as f64
from mosaic_tpu.builder.dtypes import i1 as i1
from mosaic_tpu.builder.dtypes import i4 as i4
from mosaic_tpu.builder.dtypes import i8 as i8
from mosaic_tpu.builder.dtypes import i16 as i16
from mosaic_tpu.builder.dtypes import i32 as i32
from mosaic_tpu.builder.dtypes import i64 as i64
from mosaic_tpu.builder.dtypes import index as index
from mosaic_tpu.builder.dtypes import semaphore as semaphore
from mosaic_tpu.builder.dtypes import u8 as u8
from mosaic_tpu.builder.dtypes import u16 as u16
from mosaic_tpu.builder.dtypes import u32 as u32
from mosaic_tpu.builder.enums import CombiningKind as CombiningKind
from mosaic_tpu.builder.enums import CoreType as CoreType
from mosaic_tpu.builder.enums import DimensionSemantics as DimensionSemantics
from mosaic_tpu.builder.enums import MemorySpace as MemorySpace
from mosaic_tpu.builder.enums import PipelineMode as PipelineMode
from mosaic_tpu.builder.enums import Precision as Precision
from mosaic_tpu.builder.enums import ReductionKind as ReductionKind
from mosaic_tpu.builder.enums import RevisitMode as RevisitMode
from mosaic_tpu.builder.enums import Role as Role
from mosaic_tpu.builder.enums import SemaphoreKind as SemaphoreKind
from mosaic_tpu.builder.module import MosaicModule as MosaicModule
from mosaic_tpu.builder.module import SerializedModule as SerializedModule
from mosaic_tpu.builder.module import body_text as body_text
from mosaic_tpu.builder.ops.tpu_conv import ConvDimensionNumbers as ConvDimensionNumbers
from mosaic_tpu.builder.ops.tpu_matmul import DotDimensionNumbers as DotDimensionNumbers
from mosaic_tpu.builder.specs import BoundedSlice as BoundedSlice
from mosaic_tpu.builder.specs import Buffered as Buffered
from mosaic_tpu.builder.specs import ElementWindow as ElementWindow
from mosaic_tpu.builder.specs import Iter as Iter
from mosaic_tpu.builder.specs import Ref as Ref
from mosaic_tpu.builder.specs import Scalar as Scalar
from mosaic_tpu.builder.specs import Sem as Sem
from mosaic_tpu.builder.specs import SemArray as SemArray
from mosaic_tpu.builder.specs import Window as Window
from mosaic_tpu.builder.specs import program_id as program_id
from mosaic_tpu.builder.specs import zero as zero
from mosaic_tpu.builder.views import RefView as RefView
from mosaic_tpu.builder.views import Slice as Slice

parallel = DimensionSemantics.PARALLEL
arbitrary = DimensionSemantics.ARBITRARY
core_parallel = DimensionSemantics.CORE_PARALLEL
subcore_parallel = DimensionSemantics.SUBCORE_PARALLEL

__all__ = [
    "Args",
    "BoundedSlice",
    "Buffered",
    "Builder",
    "CombiningKind",
    "ConvDimensionNumbers",
    "CoreType",
    "DType",
    "DimensionSemantics",
    "DotDimensionNumbers",
    "ElementWindow",
    "Iter",
    "MemorySpace",
    "MosaicModule",
    "OpSpec",
    "PipelineMode",
    "Precision",
    "ReductionKind",
    "Ref",
    "RefView",
    "RevisitMode",
    "Role",
    "Scalar",
    "Sem",
    "SemArray",
    "SemaphoreKind",
    "SerializedModule",
    "Slice",
    "TypeInfo",
    "Value",
    "Window",
    "arbitrary",
    "as_dtype",
    "bf16",
    "body_text",
    "core_parallel",
    "dma_semaphore",
    "f8e4m3b11fnuz",
    "f8e4m3fn",
    "f8e5m2",
    "f16",
    "f32",
    "f64",
    "i1",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "index",
    "parallel",
    "program_id",
    "registry",
    "sanitize_name",
    "semaphore",
    "subcore_parallel",
    "u8",
    "u16",
    "u32",
    "zero",
]
