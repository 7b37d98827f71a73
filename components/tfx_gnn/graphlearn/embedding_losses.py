"""GraphLearn's losses of embeddings against sampled negatives.

They are for custom training steps whose pairs are not `_readout` nodes; for `_readout` nodes, use `LinkPrediction`.
All losses are means over the given rows, so remove padding first.
"""

from __future__ import annotations

import tensorflow as tf


def sigmoid_cross_entropy_loss(pos_logit: tf.Tensor, neg_logit: tf.Tensor) -> tf.Tensor:
    """Sigmoid cross entropy with label 1 for true pairs and 0 for sampled pairs.

    It is the mean over true pairs plus the mean over sampled pairs.

    Args:
        pos_logit: float, any shape: scores of true pairs.
        neg_logit: float, any shape: scores of sampled pairs.

    Returns:
        Scalar.

    Example:
        >>> round(float(sigmoid_cross_entropy_loss(tf.constant([0.0]), tf.constant([0.0, 0.0]))), 4)
        1.3863
    """
    return tf.reduce_mean(tf.nn.softplus(-pos_logit)) + tf.reduce_mean(tf.nn.softplus(neg_logit))


def unsupervised_softmax_cross_entropy_loss(
    src_emb: tf.Tensor, pos_emb: tf.Tensor, neg_emb: tf.Tensor, temperature: float = 1.0
) -> tf.Tensor:
    """Softmax cross entropy of each source's target against the negatives of the whole batch.

    Args:
        src_emb: float [n, units].
        pos_emb: float [n, units], the target of each source.
        neg_emb: float [m, units], sampled nodes; each source is compared with all of them.
        temperature: divisor of the inner products, above 0.

    Returns:
        Scalar, mean over sources of the cross entropy.

    Raises:
        ValueError: if the temperature is not above 0.
    """
    if temperature <= 0.0:
        raise ValueError(f"`temperature` must be above 0; got {temperature}. Usual are 0.05 to 1.")
    true = tf.reduce_sum(src_emb * pos_emb, axis=-1, keepdims=True)
    drawn = tf.linalg.matmul(src_emb, neg_emb, transpose_b=True)
    log_shares = tf.nn.log_softmax(tf.concat([true, drawn], axis=-1) / temperature)
    return -tf.reduce_mean(log_shares[:, 0])


def triplet_margin_loss(  # noqa: PLR0917 - the arguments are GraphLearn's.
    pos_src_emb: tf.Tensor,
    pos_edge_emb: tf.Tensor,
    pos_dst_emb: tf.Tensor,
    neg_src_emb: tf.Tensor,
    neg_edge_emb: tf.Tensor,
    neg_dst_emb: tf.Tensor,
    margin: float,
    neg_num: int,
    L: int = 1,  # noqa: N803 - GraphLearn's name.
) -> tf.Tensor:
    """Margin loss: sampled triplets must have a larger distance than true ones (TransE, Bordes et al. 2013).

    The distance of a triplet is the distance between source + edge and target.

    Args:
        pos_src_emb: float [n, units], sources of true triplets.
        pos_edge_emb: float [n, units], their relations.
        pos_dst_emb: float [n, units], their targets.
        neg_src_emb: float [n * neg_num, units], sources of sampled triplets: `neg_num` for the first
            true triplet, then for the second, and so on.
        neg_edge_emb: float [n * neg_num, units], their relations.
        neg_dst_emb: float [n * neg_num, units], their targets.
        margin: required difference of distances.
        neg_num: number of sampled triplets for each true triplet, at least 1.
        L: 1 for the sum of absolute differences, 2 for the sum of squared differences.

    Returns:
        Scalar, mean over sampled triplets.

    Raises:
        ValueError: if `L` is neither 1 nor 2, or `neg_num` is below 1.
    """
    if L not in (1, 2):
        raise ValueError(f"`L` must be 1 or 2; got {L}. Choose absolute or squared differences.")
    if neg_num < 1:
        raise ValueError(f"`neg_num` must be at least 1; got {neg_num}. Draw negatives.")
    size = tf.abs if L == 1 else tf.square
    true = tf.reduce_sum(size(pos_src_emb + pos_edge_emb - pos_dst_emb), axis=-1)
    drawn = tf.reduce_sum(size(neg_src_emb + neg_edge_emb - neg_dst_emb), axis=-1)
    return tf.reduce_mean(tf.nn.relu(margin + tf.repeat(true, neg_num) - drawn))


def triplet_softplus_loss(  # noqa: PLR0917 - the arguments are GraphLearn's.
    pos_src_emb: tf.Tensor,
    pos_edge_emb: tf.Tensor,
    pos_dst_emb: tf.Tensor,
    neg_src_emb: tf.Tensor,
    neg_edge_emb: tf.Tensor,
    neg_dst_emb: tf.Tensor,
) -> tf.Tensor:
    """Softplus loss: true triplets must have high scores, sampled triplets low scores (DistMult, arXiv:1412.6575).

    The score of a triplet is the sum of the elementwise product of source, edge and target.

    Args:
        pos_src_emb: float [n, units], sources of true triplets.
        pos_edge_emb: float [n, units], their relations.
        pos_dst_emb: float [n, units], their targets.
        neg_src_emb: float [m, units], sources of sampled triplets.
        neg_edge_emb: float [m, units], their relations.
        neg_dst_emb: float [m, units], their targets.

    Returns:
        Scalar: half of (the mean over true triplets plus the mean over sampled triplets).
    """
    true = tf.reduce_sum(pos_src_emb * pos_edge_emb * pos_dst_emb, axis=-1)
    drawn = tf.reduce_sum(neg_src_emb * neg_edge_emb * neg_dst_emb, axis=-1)
    return 0.5 * sigmoid_cross_entropy_loss(true, drawn)
