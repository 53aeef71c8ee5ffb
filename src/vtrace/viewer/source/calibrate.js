// Stage 3 in the page: image and text on one scale, as calibrate.py does.

/** {status, scale, …} from four sums of log p (or null), and the sums of image and question scores. */
export function calibrate(likelihoods, imageSum, textSum) {
  if (!likelihoods) return { status: "off", scale: 1, imageDamage: 0, textDamage: 0, jointDamage: 0 };
  const [clean, image, text, both] = likelihoods;
  const [imageDamage, textDamage, jointDamage] = [clean - image, clean - text, clean - both];
  const imageWorth = (imageDamage + jointDamage - textDamage) / 2;
  const textWorth = (textDamage + jointDamage - imageDamage) / 2;
  const result = (status, scale = 1) => ({ status, scale, imageDamage, textDamage, jointDamage });
  if (!Number.isFinite(imageWorth) || !Number.isFinite(textWorth))
    return result("not applied: a padded pass gave no finite likelihood");
  if (imageWorth <= 0) return result("not applied: the image does not raise the likelihood of the response");
  if (textWorth <= 0) return result("not applied: the question does not raise the likelihood of the response");
  if (imageSum <= 0) return result("not applied: no image position has a positive score");
  if (textSum <= 0) return result("not applied: no question position has a positive score");
  return result("applied", ((imageWorth / textWorth) * textSum) / imageSum);
}

/** Sums over response tokens (all of them, or the target's) of the four rows of log p. */
export function likelihoodsOf(rows, tokens) {
  if (!rows) return null;
  return rows.map((row) => (tokens ? tokens.reduce((sum, token) => sum + row[token], 0) : row.reduce((a, b) => a + b, 0)));
}

/** One sentence on calibration: what hiding the image or the question does, or why it was not applied. */
export function calibrationSentence(calibration, on = "response") {
  if (calibration.status !== "applied") return `Calibration ${calibration.status}.`;
  const { imageDamage: image, textDamage: text } = calibration;
  const verb = (image < 0) === (text < 0) ? "" : `${change(text)} it `;
  return (
    `Hiding the image ${change(image)} the log-likelihood of the ${on} by ${nats(image)} nats, ` +
    `hiding the question ${verb}by ${nats(text)}.`
  );
}

/** The rest of the calibration, shown on demand; empty where there is none. */
export function calibrationDetails({ status, jointDamage, scale }) {
  if (status !== "applied") return "";
  return `Hiding both ${change(jointDamage)} it by ${nats(jointDamage)} nats. Image scores are multiplied by λ = ${Number(scale.toPrecision(3))}.`;
}

const change = (damage) => (damage < 0 ? "raises" : "lowers");
const nats = (damage) => Math.abs(damage).toFixed(1);
